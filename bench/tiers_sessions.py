"""Chat sessions of several turns, and what serving them took: every turn's prompt is all that was said before and something new.

A session's turns come one after the other; between two of them all other sessions have theirs, so that what a pool smaller than all
histories held of it is gone.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence

from bench.workload import prompt
from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest, Sampling


@dataclasses.dataclass(frozen=True)
class Shape:
    """`sessions` of `turns`, each `asked` new tokens and `answered` ones; `at_once` of them are served together."""

    sessions: int
    turns: int
    asked: int
    answered: int
    at_once: int
    vocab_size: int

    @property
    def history_tokens(self) -> int:
        """Of all sessions, at the end."""
        return self.sessions * self.turns * (self.asked + self.answered)

    def said(self, session: int, turn: int) -> list[int]:
        """The new tokens of a turn."""
        return prompt(self.asked, self.vocab_size, seed=1000 * session + turn)


@dataclasses.dataclass
class Turn:
    """One answer. `known` tokens of its prompt were computed before, in earlier turns; `cached` were not computed again."""

    prompt: list[int]
    known: int
    cached: int = 0
    first_token_s: float | None = None
    tokens: list[int] = dataclasses.field(default_factory=list)

    @property
    def recomputed(self) -> int:
        return max(0, self.known - self.cached)

    @property
    def history(self) -> list[int]:
        return self.prompt + self.tokens


def converse(engine: Engine, shape: Shape, turns: Iterable[int], before: Sequence[Turn] = ()) -> Iterator[list[Turn]]:
    """The given turns of all sessions, after those of `before`; yields each turn of all sessions."""
    last = list(before)
    for turn in turns:
        following = [_next_turn(shape, session, turn, last) for session in range(shape.sessions)]
        for first in range(0, shape.sessions, shape.at_once):
            _serve(engine, following[first : first + shape.at_once], shape.answered)
        last = following
        yield following


def _next_turn(shape: Shape, session: int, turn: int, last: Sequence[Turn]) -> Turn:
    history = last[session].history if last else []
    # The last token of an answer was drawn and never computed.
    return Turn(history + shape.said(session, turn), known=max(0, len(history) - 1))


def _serve(engine: Engine, turns: Sequence[Turn], answered: int) -> None:
    """These at once, to their ends. Raises RuntimeError if the engine refuses one."""
    started_s = time.monotonic()
    for index, turn in enumerate(turns):
        greedy = Sampling(temperature=0.0)
        engine.add(AddRequest(str(index), turn.prompt, greedy, seed=0, max_tokens=answered))
    unfinished = len(turns)
    while unfinished:
        outputs = engine.step()
        if outputs is None:
            time.sleep(engine.scheduler.gathering_s())
            continue
        for output in outputs.outputs:
            if output.error is not None:
                raise RuntimeError(f"a turn was refused: {output.error.message}")
            turn = turns[int(output.id)]
            if output.token_ids and turn.first_token_s is None:
                turn.first_token_s = time.monotonic() - started_s
            turn.tokens += output.token_ids
            turn.cached += output.cached_tokens
            unfinished -= output.finish_reason is not None
