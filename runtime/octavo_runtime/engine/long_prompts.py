"""The rule that halves how many sequences run at once while most prompts are long.

Long prompts fill the pool with few sequences and make every step's attention long; the seeds of this project halve `max_num_seqs`
for prompts over 8k. The rule looks at the last prompts and holds for the automatic value only: a number that was set is never
changed.
"""

import collections

from octavo_runtime.config import LONG_PROMPT_TOKENS

_PROMPTS_SEEN = 64
_PROMPTS_NEEDED = 8


class LongPrompts:
    def __init__(self) -> None:
        self._long: collections.deque[bool] = collections.deque(maxlen=_PROMPTS_SEEN)

    def saw(self, prompt_tokens: int) -> None:
        self._long.append(prompt_tokens > LONG_PROMPT_TOKENS)

    @property
    def prevail(self) -> bool:
        """Whether more than half of the last prompts are long."""
        return len(self._long) >= _PROMPTS_NEEDED and 2 * sum(self._long) > len(self._long)
