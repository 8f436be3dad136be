"""The models that are kept: each packed by a child process where the cache lacks it, then held."""

import contextlib
import dataclasses
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.preload.holding import Holding

log = logging.getLogger("octavo.preload")

_SMALL_BYTES = 16 << 20  # of a model folder, files up to this size are held too: tokenizer, configuration


class ModelState(msgspec.Struct, frozen=True):
    """What is held of one model, of `bytes` in all."""

    model: str
    path: str
    bytes: int
    resident_bytes: int
    locked: bool


class Progress:
    """What a keeper does now, as a sentence's part, such as `packing /models/m.gguf (42 %)`; empty while it only holds."""

    def __init__(self) -> None:
        self.text = "looking for the models"

    def tell(self, what: str, percent: int) -> None:
        self.text = f"{what} ({percent} %)"


class Keeper:
    """Of models as `configs` say that they are served; those are asked for once, as it may take long to have a model's files.

    One thread packs and holds; `states` and `progress` may be asked by another.
    """

    def __init__(self, configs: Iterable[ServeConfig], lock: bool, progress: Progress) -> None:
        self._asked = configs
        self._lock = lock
        self.progress = progress
        self._configs: list[ServeConfig] = []
        self._held: dict[str, list[Holding]] = {}
        self._changing = threading.Lock()  # what is held must not be unmapped while it is looked at

    def pack(self) -> None:
        """Into the cache, what it lacks. Raises ConfigError."""
        for config in self._asked:
            self._packed(config)

    def hold(self) -> None:
        """Everything. Raises ConfigError where a model cannot be packed and HoldingError where it cannot be locked."""
        for config in self._asked:
            self._hold(config)
            self._configs.append(config)
        self.progress.text = ""

    def look(self) -> None:
        """Read in what the kernel took back; hold what another start has written anew."""
        for config in self._configs:
            holdings = self._held[config.model]
            if all(holding.is_current() for holding in holdings):
                for holding in holdings:
                    holding.refresh()
                continue
            log.info("%s: its files have changed", config.model)
            try:
                self._hold(config)
            except ConfigError as error:  # what is held stays held; the next look tries again
                log.warning("%s", error)
            self.progress.text = ""

    def states(self) -> list[ModelState]:
        with self._changing:
            return [
                ModelState(
                    model=model,
                    path=str(holdings[0].path),
                    bytes=sum(holding.size_bytes for holding in holdings),
                    resident_bytes=sum(holding.resident_bytes() for holding in holdings),
                    locked=all(holding.locked for holding in holdings),
                )
                for model, holdings in self._held.items()
            ]

    def _hold(self, config: ServeConfig) -> None:
        files = [self._packed(config), *_small_files(config.model_path)]
        self.progress.text = f"reading in {config.model}"
        holdings = [Holding(file, self._lock) for file in files]
        with self._changing:
            for holding in self._held.get(config.model, []):
                holding.close()
            self._held[config.model] = holdings
        size_bytes = sum(holding.size_bytes for holding in holdings)
        log.info("%s: %d MiB held%s", config.model, size_bytes >> 20, ", locked" if self._lock else "")

    def _packed(self, config: ServeConfig) -> Path:
        return _packed(config, lambda percent: self.progress.tell(f"packing {config.model}", percent))


def _packed(config: ServeConfig, tell: Callable[[int], None]) -> Path:
    """The model's file in the cache, written by a child process where it is not there. Raises ConfigError."""
    tell(0)
    command = [sys.executable, "-m", "octavo_runtime.engine.packing", json.dumps(dataclasses.asdict(config))]
    said = ""
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(child.kill)  # where a signal ends this process
        assert child.stdout is not None
        for line in child.stdout:
            if (text := line.strip()).isdigit():
                tell(int(text))
            else:
                said = text
        child.wait()
    if child.returncode:
        raise ConfigError(f"{config.model} cannot be packed: {said or f'exit code {child.returncode}, see above'}")
    return Path(said)


def _small_files(model: Path) -> list[Path]:
    if not model.is_dir():
        return []
    return sorted(file for file in model.iterdir() if file.is_file() and 0 < file.stat().st_size <= _SMALL_BYTES)
