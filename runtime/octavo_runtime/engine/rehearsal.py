"""The steps that warm a device up: every kind that serving can meet, so that no kernel is compiled or loaded later and memory has
been asked for at its largest. All of them in the sink page: a slot without pages reads and writes nothing else."""

from collections.abc import Iterable

import msgspec

from octavo_runtime.engine.cuda_graphs import batch_sizes
from octavo_runtime.engine.plan import NewSlot, Run, StepPlan
from octavo_runtime.engine.traffic import StepShape
from octavo_runtime.messages import Sampling

_SAMPLING = (Sampling(temperature=0.0), Sampling(temperature=1.0, top_p=0.9, top_k=40, min_p=0.01))
_PROMPT_TOKENS = 16  # more than the decode kernel takes


def rehearsals(
    max_num_seqs: int, max_model_len: int, max_num_batched_tokens: int, weigh: bool = False
) -> list[StepPlan]:
    """Each begins with no slots. The largest come first. `weigh`: whether sequences may have a budget."""
    longest = max_model_len - 1
    kinds = [_shares(max_num_batched_tokens, max_num_seqs, longest)]
    count = min(max_num_batched_tokens, longest * max_num_seqs)
    while count > 1:
        kinds.append(_shares(count, -(-count // longest), longest))
        count //= 2
    sizes = batch_sizes(max_num_seqs)
    kinds += [[1] * min(size, max_num_seqs) for size in reversed(sizes)]
    # One token, a few and many in one step; kernels are compiled apart for what begins at every fourth sequence and elsewhere.
    kinds += [[1] * size + [_PROMPT_TOKENS] for size in sizes]
    kinds += [[1] * singles + [2, 2, _PROMPT_TOKENS] for singles in (4, 1, 0)]
    fitting = [
        kind
        for kind in kinds
        if len(kind) <= max_num_seqs and sum(kind) <= max_num_batched_tokens and max(kind) <= longest
    ]
    plans = [_plan(step, counts) for step, counts in enumerate(fitting, start=1)]
    weighed = [counts for counts in ([1, _PROMPT_TOKENS], [1]) if weigh and counts in fitting]
    return plans + [_plan(step, counts, weigh=True) for step, counts in enumerate(weighed, start=len(plans) + 1)]


def shape_rehearsals(shapes: Iterable[StepShape], max_num_seqs: int, longest: int, most_tokens: int) -> list[StepPlan]:
    """A step of each shape, in order, as far as steps can be such; each drops the slots of the one before."""
    plans: list[StepPlan] = []
    for shape in shapes:
        sequences = min(shape.sequences, shape.tokens, max_num_seqs)
        counts = _shares(min(shape.tokens, most_tokens), sequences, longest)
        plan = _plan(len(plans) + 1, counts)
        before = [run.slot for run in plans[-1].run] if plans else []
        plans.append(msgspec.structs.replace(plan, dropped=before))
    return plans


def early_plan(pages: list[int], page_size: int, count: int) -> StepPlan:
    """One sequence whose context fills these pages, and `count` tokens behind them, in the sink page."""
    tokens = [0] * (len(pages) * page_size + count)
    new = NewSlot(0, tokens, pages, _SAMPLING[0], seed=0, min_length=0, banned=[])
    return StepPlan(1, [new], [], [], [Run(0, len(tokens) - count, count)], [], [])


def _shares(tokens: int, sequences: int, longest: int) -> list[int]:
    """Tokens shared evenly, those of one first."""
    share, rest = divmod(min(tokens, sequences * longest), sequences)
    return [one for one in [share] * (sequences - rest) + [share + 1] * rest if one]


def _plan(step: int, counts: list[int], weigh: bool = False) -> StepPlan:
    new = [
        NewSlot(slot, [0] * count, [], _SAMPLING[slot % len(_SAMPLING)], slot, min_length=0, banned=[], weigh=weigh)
        for slot, count in enumerate(counts)
    ]
    return StepPlan(step, new, [], [], [Run(slot, 0, count) for slot, count in enumerate(counts)], [], [])
