"""What warm-up has met and what traffic meets after it: which shapes are rehearsed, what is late, what the manifest learns."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.late import LateCompilations, RowSizes
from octavo_runtime.engine.loading import LoadedModel
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.rehearsal import shape_rehearsals
from octavo_runtime.engine.traffic import MANIFEST, StepShape, Traffic, read_manifest
from octavo_runtime.engine.warmup import Part
from octavo_runtime.messages import Stats
from octavo_runtime.model.attention import ReferenceBackend


class FirstTimes:
    """Of one engine; `serving` ends warm-up."""

    def __init__(self, config: ServeConfig, loaded: LoadedModel, max_num_seqs: int) -> None:
        self.late = LateCompilations()
        self._most = max_num_seqs, loaded.max_model_len - 1, config.max_num_batched_tokens
        self._serving = False
        # Plain torch makes code for every number of rows; fixed tiles and the CPU kernels do not.
        plain = loaded.device.type == "cpu" and isinstance(loaded.backend, ReferenceBackend)
        self._rows = RowSizes(loaded.decoder.padded_rows, config.max_num_batched_tokens) if plain else None
        self._costs = plain or loaded.device.type != "cpu"  # whether a step of a new shape takes longer
        asked = Path(config.warmup_manifest) if config.warmup_manifest is not None else None
        self._before = read_manifest(asked)
        own = Path(config.run_dir, MANIFEST) if config.run_dir is not None else None
        paths = [path for path in (own, asked) if path is not None]
        self._traffic = Traffic(paths, self._before) if paths else None

    def parts(self, step: Callable[[StepPlan], None]) -> list[Part]:
        """Of warm-up, beside what the device's own runner does: `step` runs a plan to its end."""
        parts = []
        if self._rows is not None:
            max_num_seqs = self._most[0]
            shapes = [StepShape(min(rows, max_num_seqs), rows) for rows in reversed(self._rows.all)]
            parts.append(Part(f"steps of {len(shapes)} sizes", self._rehearse(shapes, step)))
        if self._before and self._costs:
            shapes = list(self._before)
            parts.append(Part(f"{len(shapes)} shapes that traffic met before", self._rehearse(shapes, step)))
        return parts

    def serving(self) -> None:
        """From here on what is met first is late."""
        self._serving = True

    def saw(self, plan: StepPlan) -> None:
        """A step is submitted."""
        if not self._serving:
            return
        if self._rows is not None:
            self._rows.look(plan.tokens, self.late)
        if self._traffic is not None:
            self._traffic.met(plan)
            self._traffic.write_if_due(time.monotonic())

    def counted(self, stats: Stats) -> Stats:
        """With what was late."""
        total = self.late.total
        return msgspec.structs.replace(stats, late_compilations_total=total) if total else stats

    def close(self) -> None:
        """Keep what traffic met."""
        if self._traffic is not None:
            self._traffic.write()

    def _rehearse(self, shapes: list[StepShape], step: Callable[[StepPlan], None]) -> Iterator[int]:
        plans = shape_rehearsals(shapes, *self._most)
        for done, plan in enumerate(plans, start=1):
            step(plan)
            if self._rows is not None:
                self._rows.warmed(plan.tokens)
            yield 100 * done // len(plans)
