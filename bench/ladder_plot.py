"""The runs of `bench ladder` as a picture: level, blocks, who runs and waits, latency and refusals over the burst."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ladder_burst import Burst

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL, USED, CACHED, RUNNING, WAITING, PREEMPTED, REFUSED = (
    *("#d1495b", "#2f6690", "#9cc5a1", "#2f6690", "#8d6a9f", "#f18f01", "#d1495b"),
)


def draw(runs: Sequence[tuple[str, Burst]], blocks: int, path: Path) -> None:
    """A PNG with a column for each run, over the same time. Needs matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        4, len(runs), figsize=(6.0 * len(runs), 9.0), sharex=True, sharey="row", squeeze=False, layout="constrained"
    )
    for column, (name, run) in enumerate(runs):
        axes = [panels[row][column] for row in range(4)]
        axes[0].set_title(name)
        _level(axes[0], run)
        _blocks(axes[1], run, blocks)
        _queue(axes[2], run)
        _latency(axes[3], run)
        for one in axes:
            one.grid(visible=True, alpha=0.3)
        axes[3].set_xlabel("seconds since the burst began")
    figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)


def _times(run: Burst) -> list[float]:
    return [sample.at_s for sample in run.samples]


def _series(run: Burst, name: str) -> list[float]:
    return [sample.values[name] for sample in run.samples]


def _level(axes: "Axes", run: Burst) -> None:
    axes.step(_times(run), _series(run, "level"), color=LEVEL, where="post")
    axes.set_ylim(-0.2, 7.2)
    axes.set_ylabel("level of the ladder")


def _blocks(axes: "Axes", run: Burst, blocks: int) -> None:
    used = [blocks * share for share in _series(run, "used")]
    axes.stackplot(_times(run), used, _series(run, "cached"), colors=(USED, CACHED), labels=("in use", "cached"))
    axes.axhline(blocks, color="black", linewidth=0.8)
    axes.set_ylabel("KV blocks")
    axes.legend(loc="upper right")


def _queue(axes: "Axes", run: Burst) -> None:
    axes.plot(_times(run), _series(run, "running"), color=RUNNING, label="running")
    axes.plot(_times(run), _series(run, "waiting"), color=WAITING, label="waiting")
    preemptions = _series(run, "preemptions")
    axes.plot(_times(run), [one - preemptions[0] for one in preemptions], color=PREEMPTED, label="preempted so far")
    axes.set_ylabel("requests")
    axes.legend(loc="upper right")


def _latency(axes: "Axes", run: Burst) -> None:
    """Each answered request where it ended, each refusal at the bottom."""
    for is_capped, mark, label in ((False, "o", "answered"), (True, "v", "answered, capped")):
        some = [(one.ended_s, one.latency_s) for one in run.got if one.capped == is_capped]
        points = [(at_s, latency_s) for at_s, latency_s in some if at_s is not None and latency_s is not None]
        axes.plot(
            [at_s for at_s, _ in points],
            [latency_s for _, latency_s in points],
            mark,
            color=USED,
            label=label,
            alpha=0.6,
        )
    refused = [at_s for one in run.got for at_s in one.refused_s]
    axes.plot(refused, [0.0] * len(refused), "|", color=REFUSED, label="refused, to come back")
    axes.set_ylabel("latency, s (refusals included)")
    axes.legend(loc="upper left")
