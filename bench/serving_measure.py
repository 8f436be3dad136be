"""What every engine is measured by: two short requests to warm up, the batch `repeats` times, then the first prompt alone.

Each run of the batch has another cache salt: an engine that keeps pages for prompts that begin alike must not find those of an
earlier run, for the others keep none.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.serving_result import Result
from bench.workload import Request

SINGLE_OUTPUT_TOKENS = 128
WARMUP_REQUESTS, WARMUP_TOKENS = 2, 8
_START_TIME_FIELD = 19  # of /proc/<pid>/stat, counted behind the name in brackets: starttime, `man proc_pid_stat`

Generate = Callable[[Sequence[Request], str], int]
"""(requests, cache salt) → how many tokens came out; all requests at once."""


def measured(engine: str, ready_s: float | None, generate: Generate, work: Sequence[Request], repeats: int) -> Result:
    """The figures of an engine that is ready. Raises RuntimeError, see `token_rate`."""
    generate([(prompt, WARMUP_TOKENS) for prompt, _ in work[:WARMUP_REQUESTS]], "warm-up")
    rates = [token_rate(generate, work, f"repeat {number}") for number in range(repeats)]
    single = token_rate(generate, [(work[0][0], SINGLE_OUTPUT_TOKENS)], "single")
    return Result(engine, max(rates), min(rates), single, ready_s)


def token_rate(generate: Generate, work: Sequence[Request], salt: str) -> float:
    """Output tokens a second. Raises RuntimeError if not as many came out as were asked for: such rates do not compare."""
    started_s = time.monotonic()
    tokens = generate(work, salt)
    took_s = time.monotonic() - started_s
    asked = sum(output for _, output in work)
    if tokens != asked:
        raise RuntimeError(f"{tokens} tokens came out where {asked} were asked for")
    return tokens / took_s


def since_process_start_s() -> float:
    """Seconds since this process was started, so with the interpreter's start and every import. Linux only."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_s = int(fields[_START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
