"""The border between the API process and the engine: every message survives it, and what is none is refused."""

from typing import get_args

import msgspec
import pytest

from octavo_runtime import messages
from octavo_runtime.messages import (
    Abort,
    AddRequest,
    BeamSearch,
    Call,
    EngineInfo,
    ErrorInfo,
    FromEngine,
    GrammarSpec,
    Output,
    Reply,
    Sampling,
    Stats,
    StepOutputs,
    TierStats,
    ToEngine,
)

FULL_REQUEST = AddRequest(
    id="chat-1",
    prompt_ids=[1, 2, 49151],
    sampling=Sampling(temperature=0.7, top_p=0.9, top_k=40, min_p=0.05),
    seed=2**64 - 1,
    kind="embed",
    n=3,
    beam=BeamSearch(4, length_penalty=0.5),
    eos_ids=[2],
    stop_ids=[7, 8],
    max_tokens=100,
    min_tokens=5,
    logprobs=4,
    prompt_logprobs=1,
    adapter="sha256:00ff",
    tenant_salt=b"\x00\xff",
    priority=-1,
    deadline_s=1.5,
    grammar=GrammarSpec("regex", "a+", active_after=9),
    kv_budget_tokens=2048,
)
INFO = EngineInfo(
    "m",
    "float32",
    "cpu",
    8192,
    32,
    100,
    64,
    512,
    1 << 40,
    "reference",
    49152,
    True,
    False,
    True,
    scheduler_delay_ms=2.5,
)
TIERS = [TierStats("memory", 1, 2, 3, 4, 5, 6, 7)]
LADDER_COUNTS: dict[str, object] = {
    "pressure_level": 5,
    "degradations_total": [1, 2, 3, 4, 5, 6, 7],
    "preempted_ahead_total": 23,
    "capped_total": 24,
    "max_num_batched_tokens": 256,
    "failed_steps_total": 25,
    "guard_compared_total": 26,
    "guard_same_total": 27,
    "evicted_tokens_total": 28,
    "late_compilations_total": 28,
}
STATS = Stats(
    *(1, 2, 100, 40, 10, 1234, 8, 512, 500, 12, 3.25, 4, 32, 900, 800, 3, 60, 5, [0.5, 1.25], TIERS, 21, 22),
    **LADDER_COUNTS,  # type: ignore[arg-type]  # a table of fields
)
FULL_OUTPUT = Output(
    id="chat-1",
    token_ids=[5, 6],
    index=2,
    finish_reason="error",
    stop_reason=7,
    cached_tokens=3,
    degraded=["kv8"],
    error=ErrorInfo("queue_full", "1024 requests wait", param="model", retry_after_s=2),
)
TO_ENGINE: list[ToEngine] = [
    FULL_REQUEST,
    AddRequest("r", [1], Sampling(), 0),
    Abort(["a", "b"], [("c", 2)]),
    Call(3, "info", [1, "two"]),
]
FROM_ENGINE: list[FromEngine] = [
    StepOutputs(9, [FULL_OUTPUT, Output("s"), Output("d", finish_reason="abort", stop_reason="deadline")], STATS),
    Reply(3, result=INFO),
    Reply(3, error="unknown"),
]


@pytest.mark.parametrize("message", TO_ENGINE, ids=lambda message: type(message).__name__)
def test_what_the_api_process_sends_arrives(message: ToEngine) -> None:
    assert messages.to_engine_decoder.decode(messages.encoder.encode(message)) == message


@pytest.mark.parametrize("message", FROM_ENGINE, ids=lambda message: type(message).__name__)
def test_what_the_engine_sends_arrives(message: FromEngine) -> None:
    assert messages.from_engine_decoder.decode(messages.encoder.encode(message)) == message


def test_the_messages_above_are_all_there_are_with_every_field_set() -> None:
    assert {type(message) for message in TO_ENGINE} == set(get_args(ToEngine))
    assert {type(message) for message in FROM_ENGINE} == set(get_args(FromEngine))
    for full, later in ((FULL_REQUEST, {"kv_transfer", "embeds"}), (FULL_OUTPUT, {"logprobs"}), (STATS, set())):
        defaults = {field.name: field.default for field in msgspec.structs.fields(full)}
        unset = {name for name, default in defaults.items() if getattr(full, name) == default}
        assert unset == later  # fields that can only be None yet


def test_fields_at_their_defaults_are_not_sent() -> None:
    """One message a step, for every running sequence: what says nothing takes no bytes."""
    sent = msgspec.msgpack.decode(messages.encoder.encode(Output("s", [5])))
    assert sent == {"id": "s", "token_ids": [5]}
    assert msgspec.msgpack.decode(messages.encoder.encode(Abort(["s"]))) == {"type": "abort", "ids": ["s"]}


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param({"type": "stop"}, id="unknown message"),
        pytest.param({"type": "abort"}, id="missing field"),
        pytest.param({"type": "abort", "ids": "a"}, id="wrong type"),
        pytest.param({"type": "abort", "ids": [], "sequences": [["a"]]}, id="a sequence without its index"),
        pytest.param({"type": "call", "id": 1, "method": "shutdown"}, id="unknown method"),
        pytest.param({"type": "reply", "id": 1}, id="message of the other direction"),
    ],
)
def test_what_is_no_message_is_refused(sent: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        messages.to_engine_decoder.decode(messages.encoder.encode(sent))


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (0.01, False), (1.0, False)])
def test_temperature_zero_is_greedy(temperature: float, greedy: bool) -> None:
    assert Sampling(temperature=temperature).greedy is greedy
