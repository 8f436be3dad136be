"""What follows from drawn tokens: sequences go on, fork, or end; and what a request is told when it ends otherwise."""

from octavo_runtime.engine.beams import BeamGroup
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.plan import Drawn
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.messages import ErrorInfo, Output, StopReason


class Outcome:
    def __init__(self, life: Lifecycle, max_model_len: int) -> None:
        self._life = life
        self._max_model_len = max_model_len
        self._groups: dict[Request, BeamGroup] = {}
        self._lengths: list[tuple[int, int]] = []

    def take_lengths(self) -> list[tuple[int, int]]:
        """The output length and its forecast of all that came to an end of their own since this was asked last."""
        lengths, self._lengths = self._lengths, []
        return lengths

    def drawn(self, sequence: Sequence, draw: Drawn) -> list[Output]:
        """Take what was drawn after a sequence's last token."""
        if sequence.request.asked.beam is not None:
            group = self._group(sequence.request)
            everyone = group.offer(sequence, draw.tokens, draw.logprobs)
            return self._next_beams(sequence.request, group) if everyone else []
        if len(draw.tokens) == 1:
            return [self._told(sequence, draw.tokens[0])]
        children = self._life.fork([sequence] * (len(draw.tokens) - 1), first_index=1)
        sequence.choices = 1
        return [self._told(one, token) for one, token in zip([sequence, *children], draw.tokens, strict=True)]

    def outgrown(self, sequence: Sequence) -> list[Output]:
        """It fills the whole pool alone: it ends here."""
        request = sequence.request
        if request.asked.beam is None:
            degraded = request.degraded + _evictions(sequence)
            self._life.finish(sequence)
            return [Output(request.asked.id, [], sequence.index, "length", degraded=degraded)]
        group = self._group(request)
        everyone = group.give_up(sequence, "length")
        self._life.finish(sequence)
        if not request.sequences:
            return self._beams_over(request, group)
        return self._next_beams(request, group) if everyone else []

    def overdue(self, request: Request) -> list[Output]:
        """Its deadline has come: what ran ends with what it has, what never did is refused."""
        asked, live = request.asked, list(request.sequences)
        if request.cached_tokens is None:
            self._life.end(request)
            text = f"it waited for {asked.deadline_s:g} s, its deadline, without a place in the batch: allow more time"
            return [Output(asked.id, finish_reason="error", error=ErrorInfo("deadline", text, "deadline_s"))]
        if asked.beam is not None:
            group = self._group(request)
            for sequence in live:
                group.give_up(sequence, "abort", "deadline")
            return self._beams_over(request, group, "deadline")
        indexes = range(asked.n) if live[0].choices > 1 else [sequence.index for sequence in live]
        degraded = {sequence.index: request.degraded + _evictions(sequence) for sequence in live}
        self._life.end(request)
        return [
            Output(asked.id, [], index, "abort", "deadline", degraded=degraded.get(index, request.degraded))
            for index in indexes
        ]

    def aborted(self, request: Request) -> None:
        self._life.end(request)
        self._groups.pop(request, None)

    def _told(self, sequence: Sequence, token: int) -> Output:
        """Append a token: its output, and the sequence's end if it ends it."""
        request = sequence.request
        first = sequence.generated == 0 and sequence.index == 0
        ended = sequence.reason_to_end(token, self._max_model_len)
        sequence.tokens.append(token)
        degraded = list(request.degraded) if first else []
        if ended is not None:
            degraded = request.degraded + _evictions(sequence)
            if not request.own:
                self._lengths.append((sequence.generated, request.forecast_output))
            self._life.finish(sequence)
        reason, stop = ended or (None, None)
        cached = (request.cached_tokens or 0) if first else 0
        return Output(request.asked.id, [token], sequence.index, reason, stop, cached, degraded=degraded)

    def _group(self, request: Request) -> BeamGroup:
        if request not in self._groups:
            self._groups[request] = BeamGroup(request, self._max_model_len)
        return self._groups[request]

    def _next_beams(self, request: Request, group: BeamGroup) -> list[Output]:
        """All live beams have offered their tokens: the chosen ones go on as forks of these."""
        chosen = group.choose()
        if not chosen:
            return self._beams_over(request, group)
        beams = self._life.fork([offer.beam for offer in chosen], replace=True)
        for beam, offer in zip(beams, chosen, strict=True):
            beam.tokens.append(offer.token)
        group.go_on(beams, chosen)
        return []

    def _beams_over(self, request: Request, group: BeamGroup, cut_by: StopReason = None) -> list[Output]:
        """The best ones, all at once; where fewer came to be than were asked for, the others are empty."""
        asked, best = request.asked, group.best()
        self._life.end(request)
        del self._groups[request]
        self._lengths.append((len(best[0].token_ids), request.forecast_output))
        cached, degraded = request.cached_tokens or 0, list(request.degraded)
        outputs = [
            Output(
                asked.id,
                one.token_ids,
                index,
                one.finish_reason,
                one.stop_reason,
                0 if index else cached,
                degraded=degraded,
            )
            for index, one in enumerate(best)
        ]
        missing = range(len(best), asked.n)
        return outputs + [Output(asked.id, [], index, "abort", cut_by) for index in missing]


def _evictions(sequence: Sequence) -> list[str]:
    """What its budget cost a sequence that ends, in words for its client."""
    evicted, budget = max(sequence.evicted, sequence.evicted_before), sequence.request.kv_budget
    if not evicted or budget is None:
        return []
    notes = [f"kv_budget: {evicted} tokens of its history were evicted to stay within {budget.tokens}"]
    if sequence.evicted_before:
        notes.append("kv_budget: it was preempted after evictions and computed again, which evicted anew")
    return notes
