"""`make images`: what the registry lacks of the three images is built and pushed, one caller at a time."""

import fcntl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.images import base, engines, registry, settings
from tests.cluster.images.engines import Engine, Order
from tests.cluster.images.inputs import BuildSettings, references, snapshot, stage_references
from tests.cluster.onenode.layout import cache_folder


def build(environ: Mapping[str, str]) -> dict[str, str]:
    """Leaves the three images of the tree as it is now in the registry; returns target → reference."""
    chosen = build_settings(environ)
    address = registry.address(environ)
    registry.ensure(address)
    with _alone(), snapshot() as tree:
        wanted = references(address, chosen, tree)
        missing = {target: reference for target, reference in wanted.items() if not registry.holds(reference)}
        if missing:
            start_s = time.monotonic()
            engine = engines.choose()
            stages = stage_references(chosen, tree)
            _build_and_push(engine, Plan(chosen, tree, base.resolve(engine, chosen), stages, missing), environ)
            engine.clean([*wanted.values(), *stages.values(), base.LOCAL])
            _say(f"built and pushed {', '.join(missing)} in {time.monotonic() - start_s:.0f} s")
        else:
            _say("unchanged")
    return wanted


def make_base() -> str:
    """`make base`: returns the name of the local base image, made where it was not there."""
    with _alone():
        return base.make(engines.choose())


def build_settings(environ: Mapping[str, str]) -> BuildSettings:
    return BuildSettings(base=environ.get("BASE", ""), torch_index=environ.get("TORCH_INDEX", ""))


@dataclass(frozen=True)
class Plan:
    settings: BuildSettings
    tree: Path
    base: str
    stages: Mapping[str, str]
    missing: Mapping[str, str]


def _build_and_push(engine: Engine, plan: Plan, environ: Mapping[str, str]) -> None:
    arguments = (f"--build-arg=BASE={plan.base}", f"--build-arg=TORCH_INDEX={plan.settings.torch_index}")
    with settings.secret_options(environ) as secrets:
        for target, reference in {**plan.stages, **plan.missing}.items():
            if not engine.has(reference):
                order = Order(target, reference, plan.tree, (*arguments, *secrets), plan.stages["tools"])
                engine.build(f"building {target}", order)
            if target in plan.missing:
                engine.push(f"pushing {target}", reference)


@contextmanager
def _alone() -> Iterator[None]:
    """Holds the lock of the build cache; says so where another build has it."""
    path = cache_folder() / "images.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another build of images on this machine")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"images: {text}", file=sys.stderr, flush=True)
