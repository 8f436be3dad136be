"""The mixed workload: the same requests for every engine and every run."""

import random

Request = tuple[list[int], int]


def mixed(count: int, seed: int = 0) -> list[Request]:
    """`count` requests (prompt ids, output tokens): 16 to 256 random ids in, 16 to 256 tokens out."""
    source = random.Random(seed)
    prompts = [[source.randrange(100, 40000) for _ in range(source.randrange(16, 257))] for _ in range(count)]
    outputs = [source.randrange(16, 257) for _ in range(count)]
    return list(zip(prompts, outputs, strict=True))
