"""`python -m tests.runtime.engine.short_of_address_space FOLDER`: an engine that the kernel refuses more address space.

What came of it is told as JSON. Its model has a wide MLP, so that a large step wants hundreds of MiB and a small one little.
"""

import json
import logging
import resource
import sys
from pathlib import Path

from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.tiny_engine import Answers, ask, make_engine, prompt, step
from tests.runtime.models import save_tiny_model

MLP, TOKENS, REQUESTS, PROMPT = 8192, 1024, 16, 60
SPARE_BYTES = 48 << 20  # less than the MLP of the largest step takes


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


def main(folder: Path) -> None:
    logging.basicConfig(level=logging.WARNING)
    save_tiny_model(folder, intermediate_size=MLP)
    flags: dict[str, object] = {"max_num_batched_tokens": TOKENS, "prefix_caching": False, "memory_ladder": False}
    engine = make_engine(folder, 256, **flags)
    small = make_engine(folder, 256, **flags | {"max_num_batched_tokens": 64})
    expected = answered(small)
    answered(engine)  # with all the memory it wants, so that what grows once has grown
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, resource.RLIM_INFINITY))
    answers = answered(engine)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    last = answers.steps[-1]
    told = {
        "failed_steps": last.failed_steps_total,
        "budget_tokens": last.max_num_batched_tokens,
        "asked_tokens": TOKENS,
        "same": answers.tokens == expected.tokens,
        "blocks_used": last.blocks_used,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
