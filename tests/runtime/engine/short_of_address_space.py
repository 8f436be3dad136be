"""`python -m tests.runtime.engine.short_of_address_space FOLDER RANKS RANK`: an engine of so many ranks, one of which the kernel
refuses more address space.

What came of it is told as JSON. Its model has a wide MLP, so that a large step wants hundreds of MiB and a small one little: less
than what it may have is when oneDNN has made code for new shapes and the heap has holes, which together keep some 60 MiB.
"""

import json
import logging
import os
import resource
import sys
from pathlib import Path

from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.tiny_engine import Answers, ask, make_engine, prompt, step
from tests.runtime.models import save_tiny_model

MLP, TOKENS, REQUESTS, PROMPT = 32768, 1024, 16, 60
SPARE_BYTES = 192 << 20  # less than the MLP of the largest step takes


def requests() -> list[AddRequest]:
    return [ask(f"r{index}", prompt(f"r{index}", PROMPT), max_tokens=6) for index in range(REQUESTS)]


def answered(engine: Engine) -> Answers:
    """The requests, to their end."""
    answers = Answers()
    for request in requests():
        engine.add(request)
    while step(engine, answers):
        pass
    return answers


def limit(process: int, spare_bytes: int | None) -> None:
    """No more address space for it than it has and so much; None: as much as it wants."""
    used = int(Path(f"/proc/{process}/statm").read_text().split()[0]) * resource.getpagesize()
    most = resource.RLIM_INFINITY if spare_bytes is None else used + spare_bytes
    resource.prlimit(process, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def process_of(rank: int) -> int:
    """Rank 0 is this process; others are its children, which were started in order of rank."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    ranks = [int(child) for child in children if b"engine.ranks" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return [own, *sorted(ranks)][rank]


def main(folder: Path, ranks: int, rank: int) -> None:
    logging.basicConfig(level=logging.WARNING)
    save_tiny_model(folder, intermediate_size=MLP * ranks)
    flags: dict[str, object] = {"max_num_batched_tokens": TOKENS, "prefix_caching": False, "memory_ladder": False}
    small = make_engine(folder, 256, **flags | {"max_num_batched_tokens": 64})
    expected = answered(small)
    small.close()
    engine = make_engine(folder, 256 * ranks, tensor_parallel_size=ranks, **flags)
    answered(engine)  # with all the memory it wants, so that what grows once has grown
    limit(process_of(rank), SPARE_BYTES)
    answers = answered(engine)
    limit(process_of(rank), None)
    again = answered(engine)
    last = again.steps[-1]
    told = {
        "failed_steps": last.failed_steps_total,
        "budget_tokens": last.max_num_batched_tokens,
        "asked_tokens": TOKENS,
        "same": answers.tokens == again.tokens == expected.tokens,
        "blocks_used": last.blocks_used,
    }
    engine.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
