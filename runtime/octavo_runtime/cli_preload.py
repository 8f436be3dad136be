"""`octavo preload`: packs models into a node's cache of weights, keeps them in memory, and tells over a socket what it holds."""

import argparse
import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from octavo_runtime.config import NO_CACHE, ConfigError
from octavo_runtime.preload import models
from octavo_runtime.preload.holding import HoldingError
from octavo_runtime.preload.keeper import Keeper, ModelState, Progress
from octavo_runtime.preload.status import NAME, Status, answering, ask
from octavo_runtime.weights_folder import settled_folder

LOOK_EVERY_S = 30.0


def preload(parsed: argparse.Namespace) -> int:
    """Until a signal ends it, or with `--once` until all is packed; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        folder = _folder(parsed.weights_cache)
        models.check(parsed.models)
        progress = Progress()
        keeper = Keeper(models.configs(parsed.models, _places(parsed, folder), progress), parsed.lock, progress)
        if parsed.once:
            keeper.pack()
            return 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _end)
        path = Path(parsed.socket) if parsed.socket is not None else folder / NAME
        with answering(path, lambda: Status(os.getpid(), keeper.states(), progress.text)):
            keeper.hold()
            while True:
                time.sleep(LOOK_EVERY_S)
                keeper.look()
    except (ConfigError, HoldingError) as error:
        print(f"octavo preload: {error}", file=sys.stderr)
        return 2


def show(weights_cache: str | None, socket_path: str | None) -> int:
    """Print what is held: 0 if all of it is in memory, 1 if not, not yet, or nobody answers."""
    try:
        path = Path(socket_path) if socket_path is not None else _folder(weights_cache) / NAME
    except ConfigError as error:
        print(f"octavo preload: {error}", file=sys.stderr)
        return 2
    status = ask(path)
    if status is None:
        print(f"octavo preload: nobody answers at {path}", file=sys.stderr)
        return 1
    for state in status.models:
        print(_line(state))
    if status.doing:
        print(f"octavo preload: not yet, {status.doing}", file=sys.stderr)
        return 1
    return 0 if all(state.resident_bytes == state.bytes for state in status.models) else 1


def _line(state: ModelState) -> str:
    resident = 100 * state.resident_bytes // max(1, state.bytes)
    return f"{state.model}: {resident} % of {state.bytes >> 20} MiB in memory{', locked' if state.locked else ''} ({state.path})"


def _places(parsed: argparse.Namespace, weights: Path) -> models.Places:
    cache = parsed.model_cache or os.environ.get("OCTAVO_MODEL_CACHE")
    return models.Places(weights, cache, parsed.hub_token_file or os.environ.get("OCTAVO_HUB_TOKEN_FILE"))


def _folder(asked: str | None) -> Path:
    folder = settled_folder(asked or os.environ.get("OCTAVO_WEIGHTS_CACHE"), os.environ)
    if folder == NO_CACHE:
        raise ConfigError("--weights-cache: there is no folder to keep packed weights in: give one that lasts")
    return Path(folder)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
