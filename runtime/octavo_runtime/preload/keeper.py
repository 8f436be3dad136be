"""The models that are kept: each packed by a child process where the cache lacks it, then held."""

import dataclasses
import json
import logging
import subprocess
import sys
from collections.abc import Iterable
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


class Keeper:
    """Of models as `configs` say that they are served; those are asked for once, as it may take long to have a model's files."""

    def __init__(self, configs: Iterable[ServeConfig], lock: bool) -> None:
        self._asked = configs
        self._lock = lock
        self._configs: list[ServeConfig] = []
        self._held: dict[str, list[Holding]] = {}

    def pack(self) -> None:
        """Into the cache, what it lacks. Raises ConfigError."""
        for config in self._asked:
            _packed(config)

    def hold(self) -> None:
        """Everything. Raises ConfigError where a model cannot be packed and HoldingError where it cannot be locked."""
        for config in self._asked:
            self._hold(config)
            self._configs.append(config)

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

    def states(self) -> list[ModelState]:
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

    def close(self) -> None:
        for holdings in self._held.values():
            for holding in holdings:
                holding.close()
        self._held.clear()

    def _hold(self, config: ServeConfig) -> None:
        files = [_packed(config), *_small_files(config.model_path)]
        before = self._held.get(config.model, [])
        self._held[config.model] = [Holding(file, self._lock) for file in files]
        for holding in before:
            holding.close()
        size_bytes = sum(holding.size_bytes for holding in self._held[config.model])
        log.info("%s: %d MiB held%s", config.model, size_bytes >> 20, ", locked" if self._lock else "")


def _packed(config: ServeConfig) -> Path:
    """The model's file in the cache, written by a child process where it is not there. Raises ConfigError."""
    command = [sys.executable, "-m", "octavo_runtime.engine.packing", json.dumps(dataclasses.asdict(config))]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        reason = ran.stdout.strip() or f"exit code {ran.returncode}, see above"
        raise ConfigError(f"{config.model} cannot be packed: {reason}")
    return Path(ran.stdout.strip())


def _small_files(model: Path) -> list[Path]:
    if not model.is_dir():
        return []
    return sorted(file for file in model.iterdir() if file.is_file() and 0 < file.stat().st_size <= _SMALL_BYTES)
