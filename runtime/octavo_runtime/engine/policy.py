"""What of the configuration the scheduler goes by."""

import dataclasses

from octavo_runtime.engine.pressure import Means


@dataclasses.dataclass(frozen=True)
class Policy:
    """See `Scheduler`."""

    max_num_batched_tokens: int
    prefill_percent: int = 100  # of the budget, while others decode
    chunked_prefill: bool = True
    scheduler_delay_s: float = 0.0
    halve_for_long_prompts: bool = False
    kv_guard_percent: int | None = None  # of requests in 8 bits, that are compared with the full format
    kv_guard_limit: int = 90  # percent of their tokens that must be the same
    ladder: Means | None = None  # what the memory ladder has to act with; None: there is none
