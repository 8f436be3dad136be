"""The shapes of steps that traffic meets: counted while serving, kept in a manifest, run most frequent first at the next start.

A shape is how many sequences a step has and how many tokens they have together, both rounded up to a power of two: kernels and
buffers depend on such classes, and there are few. The manifest is JSON: `{"shapes": [{"sequences", "tokens", "steps"}, …]}`.
"""

import collections
import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from octavo_runtime.engine.plan import StepPlan

log = logging.getLogger("octavo.engine")

MANIFEST = "warmup-manifest.json"  # in the run directory
WRITE_EVERY_S = 60.0
_MOST_SHAPES = 256
_OLD_WEIGHT = 0.5  # of what an earlier process met, beside what this one does


class StepShape(msgspec.Struct, frozen=True, order=True):
    sequences: int
    tokens: int


class _Counted(msgspec.Struct, frozen=True):
    sequences: int
    tokens: int
    steps: float


class _Manifest(msgspec.Struct, frozen=True):
    shapes: list[_Counted]


class Traffic:
    """What was met, and where it is written: to `paths` that can be written, each whole or not at all."""

    def __init__(self, paths: Iterable[Path], before: dict[StepShape, float]) -> None:
        self._paths = list(paths)
        self._counts = collections.Counter({shape: steps * _OLD_WEIGHT for shape, steps in before.items()})
        self._written_s: float | None = None
        self._changed = False

    def met(self, plan: StepPlan) -> None:
        self._counts[shape_of(len(plan.run), plan.tokens)] += 1
        self._changed = True

    def write(self) -> None:
        """Now, if there is something new. A folder that cannot be written is left out from then on, with a line in the log."""
        if not self._changed:
            return
        self._changed = False
        shapes = [_Counted(one.sequences, one.tokens, steps) for one, steps in self._counts.most_common(_MOST_SHAPES)]
        content = msgspec.json.format(msgspec.json.encode(_Manifest(shapes)))
        for path in list(self._paths):
            try:
                _replace(path, content)
            except OSError as error:
                log.info("the manifest of shapes is not written to %s: %s", path, error.strerror)
                self._paths.remove(path)

    def write_if_due(self, now_s: float) -> None:
        if self._written_s is None:
            self._written_s = now_s
        elif now_s - self._written_s >= WRITE_EVERY_S:
            self._written_s = now_s
            self.write()


def shape_of(sequences: int, tokens: int) -> StepShape:
    return StepShape(_rounded(sequences), _rounded(tokens))


def read_manifest(path: Path | None) -> dict[StepShape, float]:
    """What was met before, most frequent first; nothing, and a line in the log, where the file is absent or damaged."""
    if path is None:
        return {}
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except OSError as error:
        log.info("no manifest of shapes at %s: %s", path, error.strerror)
        return {}
    except msgspec.MsgspecError as error:
        log.warning("%s is no manifest of shapes (%s): warm-up goes without it", path, error)
        return {}
    counted = sorted(manifest.shapes, key=lambda one: one.steps, reverse=True)[:_MOST_SHAPES]
    return {StepShape(one.sequences, one.tokens): one.steps for one in counted if one.sequences and one.tokens}


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _rounded(number: int) -> int:
    return 1 << (number - 1).bit_length()
