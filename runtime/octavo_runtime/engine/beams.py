"""Beam search: which continuations go on, which are finished, when it ends. Pure.

At every step each of the live beams offers its likeliest next tokens, at least 2 · width, so that width of them go on even if
others end a text. Finished ones rank by log-probability / tokens ** length_penalty. The search ends when no live beam can
overtake the worst of the width best finished ones, or nothing is left alive.
"""

import dataclasses
import math

from octavo_runtime.engine.request import Request, Sequence, beam_offers
from octavo_runtime.messages import BeamSearch, FinishReason, StopReason


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A finished continuation."""

    token_ids: list[int]
    score: float  # by which they rank
    finish_reason: FinishReason
    stop_reason: StopReason


@dataclasses.dataclass(frozen=True)
class Offer:
    """A possible next token of a live beam; `logprob` is the whole continuation's."""

    logprob: float
    beam: Sequence
    token: int


class BeamGroup:
    """The beams of one request."""

    def __init__(self, request: Request, max_length: int) -> None:
        assert request.asked.beam is not None
        self._request = request
        self._spec: BeamSearch = request.asked.beam
        self._max_length = max_length
        self._logprob: dict[Sequence, float] = {request.sequences[0]: 0.0}
        self._offers: dict[Sequence, list[Offer]] = {}
        self._finished: list[Hypothesis] = []

    def offer(self, beam: Sequence, tokens: list[int], logprobs: list[float]) -> bool:
        """Take a live beam's likeliest next tokens; whether all live beams have offered theirs."""
        beam.offered = True
        so_far = self._logprob[beam]
        self._offers[beam] = [Offer(so_far + logprob, beam, t) for t, logprob in zip(tokens, logprobs, strict=True)]
        return len(self._offers) == len(self._logprob)

    def give_up(self, beam: Sequence, reason: FinishReason, stop_reason: StopReason = None) -> bool:
        """End a live beam where it is; whether all others, if there are any, have offered their tokens."""
        logprob = self._logprob.pop(beam)
        self._offers.pop(beam, None)
        generated = beam.tokens[self._request.prompt_length :]
        self._finished.append(Hypothesis(generated, self._score(logprob, len(generated)), reason, stop_reason))
        return len(self._offers) == len(self._logprob)

    def choose(self) -> list[Offer]:
        """The offers that go on, best first; none when the search is over. Those that end a text are kept as finished."""
        offers = [offer for offers in self._offers.values() for offer in offers]
        offers.sort(key=lambda offer: -offer.logprob)  # stable: equal ones by beam, then as the beam ranked them
        live: list[Offer] = []
        for offer in offers[: beam_offers(self._request.asked)]:
            ended = offer.beam.reason_to_end(offer.token, self._max_length)
            if ended is not None:
                self._finish(offer, *ended)
            elif len(live) < self._spec.width:
                live.append(offer)
        self._offers = {}
        return [] if self._over(live) else live

    def go_on(self, beams: list[Sequence], offers: list[Offer]) -> None:
        """The live beams are these now, each after its offer."""
        self._logprob = {beam: offer.logprob for beam, offer in zip(beams, offers, strict=True)}

    def best(self) -> list[Hypothesis]:
        """The best finished ones, as many as were asked for."""
        return sorted(self._finished, key=lambda one: -one.score)[: self._request.asked.n]

    def _finish(self, offer: Offer, reason: FinishReason, stop: int | None) -> None:
        token_ids = [*offer.beam.tokens[self._request.prompt_length :], offer.token]
        self._finished.append(Hypothesis(token_ids, self._score(offer.logprob, len(token_ids)), reason, stop))

    def _over(self, live: list[Offer]) -> bool:
        if not live or len(self._finished) < self._spec.width:
            return not live
        worst_kept = sorted((one.score for one in self._finished), reverse=True)[self._spec.width - 1]
        # A log-probability only falls; a longer text divides it by more where the penalty is positive.
        longest = self._max_length - self._request.prompt_length
        length = longest if self._spec.length_penalty > 0 else live[0].beam.generated + 1
        return self._score(live[0].logprob, length) <= worst_kept

    def _score(self, logprob: float, tokens: int) -> float:
        return logprob / math.pow(max(1, tokens), self._spec.length_penalty)
