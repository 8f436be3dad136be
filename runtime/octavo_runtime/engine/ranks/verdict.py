"""Which rank hangs, from what all of them tell: a pure function of their words and the time.

All ranks begin the same collectives in the same order, and none gets further than the one that the others have not joined. So the
foremost of them stands in the first collective that another has not begun, and when it has stood there too long, that other hangs.
"""

from collections.abc import Sequence

from octavo_runtime.engine.ranks.words import RankWord

HUNG_AFTER_S = 10.0
HUNG_AFTER_BEFORE_SERVING_S = 60.0  # kernels are compiled then, at different times on different ranks


def hung(words: Sequence[RankWord], now_s: float) -> str | None:
    """The sentence that names the rank, None where all go on."""
    foremost = max(words, key=lambda word: word.collectives)
    behind = min(words, key=lambda word: word.collectives)
    waited_s = now_s - foremost.at_s
    limit_s = HUNG_AFTER_S if all(word.serving for word in words) else HUNG_AFTER_BEFORE_SERVING_S
    if behind.collectives == foremost.collectives or waited_s <= limit_s:
        return None
    return (
        f"rank {behind.rank} (process {behind.pid}) hangs: rank {foremost.rank} has waited for it for {waited_s:.0f} s; "
        f"{last_step(behind)}"
    )


def last_step(word: RankWord) -> str:
    return f"its last step was {word.step}" if word.step else "it had begun no step"
