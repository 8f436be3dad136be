from typing import Any

import pytest

from octavo_operator.plan import plan
from tests.operator.samples import parsed


@pytest.mark.parametrize(
    ("spec", "strategy", "says"),
    [
        pytest.param({"device": "cpu"}, "Surge", "room for one more", id="CPU pods surge by themselves"),
        pytest.param({"device": "gpu"}, "OneByOne", "GPUs that only an old one frees", id="GPU pods do not"),
        pytest.param(
            {"device": "gpu", "rollout": {"strategy": "Surge"}}, "Surge", "spec.rollout", id="asked for Surge"
        ),
        pytest.param({"rollout": {"strategy": "Recreate"}}, "Recreate", "spec.rollout", id="asked for Recreate"),
    ],
)
def test_chooses_how_pods_are_replaced_and_says_why(spec: dict[str, Any], strategy: str, says: str) -> None:
    step = plan(parsed(**spec))
    assert step.strategy == strategy
    assert says in step.reason


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        pytest.param({}, 1, id="absent is one"),
        pytest.param({"replicas": 3}, 3, id="as asked"),
        pytest.param({"replicas": 0}, 0, id="none"),
        pytest.param({"replicas": 3, "suspend": True}, 0, id="suspended"),
        pytest.param({"replicas": 3, "suspend": False}, 3, id="resumed"),
    ],
)
def test_wants_as_many_pods_as_asked_unless_suspended(spec: dict[str, Any], replicas: int) -> None:
    assert plan(parsed(**spec)).replicas == replicas
