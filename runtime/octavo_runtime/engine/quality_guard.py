"""Whether requests in 8 bits still say what they would say in the full format: sampled from live ones, compared token by token.

Of a greedy request in 8 bits that has ended, one token is asked for again, in the full format, after the very tokens that stood
before it. Where too many of the newest comparisons differ, new requests are not kept in 8 bits any more: for good, because nothing
would be left to compare that could show that it is better now.

A comparison is a request of the engine's own that comes last of all: it costs a prompt, and waits while memory is short.
"""

import collections
import logging
import random

from octavo_runtime.engine.request import Sequence
from octavo_runtime.messages import AddRequest, Output, Sampling

log = logging.getLogger("octavo.engine")

COMPARED_LEAST = 20  # before it is judged
COMPARED_NEWEST = 100
_WAITING_MOST = 4  # comparisons; further ones are left out
_LAST_PRIORITY = 2**31 - 1
_NAME = "octavo kv guard"


class QualityGuard:
    """`share_percent` of the requests are compared, none where it is None; at least `limit_percent` of tokens must be the same."""

    def __init__(self, share_percent: int | None, limit_percent: int, source: random.Random) -> None:
        self._share = (share_percent or 0) / 100
        self._limit = limit_percent / 100
        self._source = source
        self._expected: dict[str, int] = {}  # of comparisons under way, what the request in 8 bits had
        self._newest: collections.deque[bool] = collections.deque(maxlen=COMPARED_NEWEST)
        self.compared_total = 0
        self.same_total = 0
        self.objects = False  # nothing more is to be kept in 8 bits

    def comparison(self, sequence: Sequence) -> AddRequest | None:
        """What is to be asked for one that has ended, if anything."""
        asked = sequence.request.asked
        if not sequence.request.narrow or asked.beam is not None or not asked.sampling.greedy:
            return None
        if len(self._expected) == _WAITING_MOST or self._source.random() >= self._share:
            return None
        drawn = range(sequence.request.prompt_length + asked.min_tokens, len(sequence.tokens))
        if not drawn:
            return None
        at = self._source.choice(drawn)
        name = f"{_NAME} {self.compared_total + len(self._expected)}"
        self._expected[name] = sequence.tokens[at]
        return AddRequest(
            name,
            sequence.tokens[:at],
            Sampling(temperature=0.0),
            seed=0,
            max_tokens=1,
            priority=_LAST_PRIORITY,
            tenant_salt=asked.tenant_salt,
        )

    def take(self, outputs: list[Output]) -> list[Output]:
        """The outputs without those of comparisons, which are taken into account."""
        if not self._expected:
            return outputs
        for output in outputs:
            expected = self._expected.pop(output.id, None)
            if expected is not None and output.token_ids:
                self._compared(output.token_ids[0] == expected)
        return [output for output in outputs if not output.id.startswith(_NAME)]

    def _compared(self, same: bool) -> None:
        self.compared_total += 1
        self.same_total += same
        self._newest.append(same)
        share = sum(self._newest) / len(self._newest)
        if not self.objects and len(self._newest) >= COMPARED_LEAST and share < self._limit:
            self.objects = True
            log.warning(
                "of the newest %d tokens of requests in 8 bits, %.0f %% are what the full KV format gives, less than %.0f %%: "
                "new requests are not kept in 8 bits until the next start",
                len(self._newest),
                100 * share,
                100 * self._limit,
            )
