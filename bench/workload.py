"""The workloads: the same requests for every engine and every run, from seeded generators.

A `Request` is (prompt ids, output tokens). Ids are random and below `vocab_size`, so that prompts share nothing by chance.
"""

import math
import random

Request = tuple[list[int], int]

CHAT_PROMPT_TOKENS, CHAT_OUTPUT_TOKENS = (
    161.3,
    338.0,
)  # means of ShareGPT's chats, https://arxiv.org/abs/2309.06180, figure 11
MIXED_IDS = (100, 40_000)  # from … to below
CHAT_SPREAD = 0.8  # of the logarithm
LONG_SHARE = 0.15  # of the requests of `long_tail`
SHORT_TOKENS, LONG_TOKENS = (4, 16), (128, 256)  # its answers, from … to


def mixed(count: int, seed: int = 0, vocab_size: int = MIXED_IDS[1]) -> list[Request]:
    """`count` requests (prompt ids, output tokens): 16 to 256 random ids in, 16 to 256 tokens out.

    64 of them with seed 0 have 9,786 tokens in and 8,133 out. Ids stay below `vocab_size`, which must be above 100.
    """
    source = random.Random(seed)
    first, end = MIXED_IDS[0], min(MIXED_IDS[1], vocab_size)
    prompts = [[source.randrange(first, end) for _ in range(source.randrange(16, 257))] for _ in range(count)]
    outputs = [source.randrange(16, 257) for _ in range(count)]
    return list(zip(prompts, outputs, strict=True))


def chats(count: int, vocab_size: int, context_tokens: int, seed: int = 0) -> list[Request]:
    """Sessions as chats are: log-normal prompts and outputs, of which a few are long; both cut at half of the context."""
    source = random.Random(seed)

    def length(mean: float) -> int:
        drawn = source.lognormvariate(math.log(mean) - CHAT_SPREAD**2 / 2, CHAT_SPREAD)
        return max(4, min(round(drawn), context_tokens // 2))

    return [(_ids(source, length(CHAT_PROMPT_TOKENS), vocab_size), length(CHAT_OUTPUT_TOKENS)) for _ in range(count)]


def long_tail(count: int, vocab_size: int, seed: int = 0) -> list[Request]:
    """Most answers short, `LONG_SHARE` of them long: what makes a static batch wait."""
    source = random.Random(seed)
    work = []
    for _ in range(count):
        output = source.randint(*(LONG_TOKENS if source.random() < LONG_SHARE else SHORT_TOKENS))
        work.append((_ids(source, source.randrange(16, 65), vocab_size), output))
    return work


def with_prefix(count: int, prefix_tokens: int, output_tokens: int, vocab_size: int, seed: int = 0) -> list[Request]:
    """Requests that begin with the same `prefix_tokens` ids and end with 16 to 64 of their own."""
    source = random.Random(seed)
    prefix = _ids(source, prefix_tokens, vocab_size)
    return [(prefix + _ids(source, source.randrange(16, 65), vocab_size), output_tokens) for _ in range(count)]


def prompt(tokens: int, vocab_size: int, seed: int = 0) -> list[int]:
    """One prompt of exactly so many random ids."""
    return _ids(random.Random(seed), tokens, vocab_size)


def poisson(count: int, rate_per_s: float, seed: int = 0) -> list[float]:
    """Arrival times in seconds from the start, of independent clients at `rate_per_s` in the mean."""
    source = random.Random(seed)
    at_s, arrivals = 0.0, []
    for _ in range(count):
        at_s += source.expovariate(rate_per_s)
        arrivals.append(at_s)
    return arrivals


def _ids(source: random.Random, count: int, vocab_size: int) -> list[int]:
    return [source.randrange(vocab_size) for _ in range(count)]
