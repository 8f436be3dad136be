"""What rank 0 tells the other ranks, as MessagePack."""

import msgspec

from octavo_runtime.engine.plan import StepPlan


class Agreed(msgspec.Struct, frozen=True, tag="agreed"):
    """All ranks have come to a meeting; the least of the numbers that they came with."""

    least: int


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Make a runner for steps of at most so many sequences and tokens."""

    max_num_seqs: int
    max_num_batched_tokens: int


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """What a runner does before its first step."""


class Serve(msgspec.Struct, frozen=True, tag="serve"):
    """Warming is over."""


class Step(msgspec.Struct, frozen=True, tag="step"):
    plan: StepPlan


class Reset(msgspec.Struct, frozen=True, tag="reset"):
    """Forget all slots."""


Order = Agreed | Begin | Prepare | Serve | Step | Reset

encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
