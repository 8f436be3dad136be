import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from tests.runtime.engine import paper
from tests.runtime.engine.tiny_engine import Alone, MakeEngine, make_engine
from tests.runtime.models import save_tiny_model


@pytest.fixture(scope="module", params=[pytest.param(0, id="depth 0"), pytest.param(1, id="depth 1")])
def each_depth(request: pytest.FixtureRequest) -> Iterator[int]:
    """Schedulers on paper plan so many steps ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "DEPTH", request.param)
        yield request.param


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def new_engine(tiny: Path) -> MakeEngine:
    """`new_engine(pages, **flags)`: an engine that has seen nothing yet."""
    return functools.partial(make_engine, tiny)


@pytest.fixture(scope="session")
def alone(new_engine: MakeEngine) -> Alone:
    return Alone(new_engine)


@pytest.fixture(scope="session")
def reference(tiny: Path) -> transformers.PreTrainedModel:
    """The same model in transformers."""
    model: transformers.PreTrainedModel = transformers.AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    return model.eval()
