"""The curves of `bench scaling` as a picture: what was measured, the floor beside it, both axes logarithmic."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.scaling_floor import Machine, Point

MEASURED, FLOOR = "#d1495b", "#2f6690"


def draw(curves: Mapping[str, Sequence[Point]], limits: Mapping[str, Machine], path: Path) -> None:
    """A PNG with one panel for each curve. Needs matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(curves), figsize=(4.2 * len(curves), 3.8), squeeze=False, layout="constrained"
    )
    for axes, (name, points) in zip(panels[0], curves.items(), strict=True):
        sizes = [point.x for point in points]
        floors_ms = [1e3 * point.floor_s(limits[name]) for point in points]
        axes.loglog(sizes, [1e3 * point.step_s for point in points], "o-", color=MEASURED, label="measured")
        axes.loglog(sizes, floors_ms, "s--", color=FLOOR, label="floor")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=45)
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.grid(visible=True, alpha=0.3)
    panels[0][0].set_ylabel("milliseconds a decoding step")
    panels[0][0].legend()
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)
