"""Warm-up in parts, each with a name that `/state` shows while it runs, the whole with a percentage and an end."""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable

from octavo_runtime.engine.admission import Limits
from octavo_runtime.messages import AddRequest, Sampling

log = logging.getLogger("octavo.engine")

_OUTPUT_TOKENS = 2  # the prompt's step draws one, a decoding step the other

Progress = Callable[[int, str], None]  # percent of the whole, what is being warmed


@dataclasses.dataclass(frozen=True)
class Part:
    """`steps` runs as it is iterated, and yields the percentage that is done. `bounded`: may be cut short by the clock."""

    what: str
    steps: Iterable[int]
    bounded: bool = True


def silent(percent: int, what: str) -> None:
    """For who does not look."""


def requests(wanted: int, max_num_batched_tokens: int, limits: Limits) -> list[AddRequest]:
    """`wanted` requests whose prompts fill one step together, or what the pool has room for."""
    longest = min(limits.max_model_len, limits.pool_pages * limits.page_size) - _OUTPUT_TOKENS
    length = max(1, min(max_num_batched_tokens // wanted, longest))
    room = limits.pool_pages // (-(-(length + _OUTPUT_TOKENS) // limits.page_size))
    prompts = [  # each another, or they would share their pages
        [index % limits.vocab_size] * length for index in range(min(wanted, limits.max_num_seqs, room))
    ]
    greedy = Sampling(temperature=0.0)
    return [
        AddRequest(f"warmup-{index}", prompt, greedy, seed=0, max_tokens=_OUTPUT_TOKENS)
        for index, prompt in enumerate(prompts)
    ]


def run(parts: list[Part], progress: Progress, max_s: float, monotonic_s: Callable[[], float] = time.monotonic) -> None:
    """One after the other. After `max_s` what is left of bounded parts is left out, with a line in the log that names it."""
    started_s = monotonic_s()
    for number, part in enumerate(parts):
        before = 100 * number // len(parts)
        progress(before, part.what)
        for done in part.steps:
            progress(before + done // len(parts), part.what)
            if part.bounded and done < 100 and monotonic_s() - started_s > max_s:
                log.warning(
                    "warm-up: left out %d %% of '%s' after %g s (--warmup-max-seconds): serving may meet it first",
                    100 - done,
                    part.what,
                    max_s,
                )
                break
