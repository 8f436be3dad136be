"""`octavo serve`: the engine process first, then the server's libraries, so that both load at the same time."""

import dataclasses
import gc
import logging
import os
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.ranks.placement import Placement, placement
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.engine_process import end_engine, start_engine
from octavo_runtime.server.run_dir import DEFAULT, held_run_dir
from octavo_runtime.source.cache import CachedModel
from octavo_runtime.source.reference import FORMS, hub_reference
from octavo_runtime.weights_folder import models_folder, settled_folder

if TYPE_CHECKING:  # imported where it is needed: a second that the engine's start need not wait for
    from octavo_runtime.server.health_server import HealthServer

log = logging.getLogger("octavo")


def serve(config: ServeConfig) -> int:
    """Until a signal ends it; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        if hub_reference(config.model) is None and not config.model_path.exists():
            raise ConfigError(f"the model {config.model_path} does not exist: {FORMS}")
        placed = placement(config, os.environ)
        with held_run_dir(config.run_dir) as run_dir:
            signal.signal(signal.SIGTERM, _end)  # the first process of a container ends by none that it does not handle
            config = dataclasses.replace(config, run_dir=str(run_dir))
            if placed.node:
                return _follow(config, placed, run_dir)
            if run_dir != DEFAULT:
                log.info("drain with: octavo drain --run-dir %s", shlex.quote(str(run_dir)))
            weights = settled_folder(config.weights_cache, os.environ)
            return _serve(dataclasses.replace(config, weights_cache=weights), run_dir)
    except ConfigError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the server's own handlers were there
        return 130


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _follow(config: ServeConfig, placed: Placement, run_dir: Path) -> int:
    from octavo_runtime.cli_follow import follow

    heartbeat = Heartbeat.open(run_dir)
    heartbeat.reset()
    config, health = _fetched(config, heartbeat)
    return follow(config, placed, health)


def _fetched(config: ServeConfig, heartbeat: Heartbeat) -> "tuple[ServeConfig, HealthServer | None]":
    """The configuration with its model on this machine, and the health port where that is open already."""
    reference = hub_reference(config.model)
    if reference is None:
        return config, None
    if reference.pinned:
        found = CachedModel(models_folder(config.model_cache, os.environ), reference).find(reference.revision)
        if found is not None:  # the libraries that download take a second to import
            return dataclasses.replace(config, fetched=str(found.path), revision=found.commit), None
    from octavo_runtime.cli_fetch import fetch

    return fetch(config, reference, heartbeat)


def _serve(config: ServeConfig, run_dir: Path) -> int:
    heartbeat = Heartbeat.open(run_dir)
    heartbeat.reset()  # a crashed server may have left an old one
    config, health = _fetched(config, heartbeat)
    engine = start_engine(config)
    try:
        # These take a second: the engine is loading meanwhile. What they make stays, so nobody looks for garbage in it.
        gc.disable()
        import asyncio

        from octavo_runtime.server import process

        gc.freeze()
        gc.enable()
        return asyncio.run(process.serve(config, engine, run_dir, heartbeat, health))
    finally:
        end_engine(engine)
        heartbeat.close()
