"""The engine inside the caller's process, for scripts and benchmarks: prompts in, finished sequences out."""

import dataclasses
import time

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.messages import AddRequest, FinishReason


class RefusedError(ValueError):
    """The engine did not admit a request; the text says why."""


@dataclasses.dataclass
class Completion:
    """What a request generated."""

    token_ids: list[int] = dataclasses.field(default_factory=list)
    finish_reason: FinishReason | None = None
    cached_tokens: int = 0


class LLM:
    """Loads and warms the model of `config`; `generate` runs a batch of requests to its end. One thread calls it at a time.

    Without the memory ladder: a batch is answered as it was asked, however long that takes.
    """

    def __init__(self, config: ServeConfig) -> None:
        self.engine = Engine(dataclasses.replace(config, memory_ladder=False, allow_lossy=False, kv_guard_percent=None))
        self.engine.warm_up()

    def generate(self, requests: list[AddRequest]) -> list[Completion]:
        """All requests at once, each with an id of its own; one completion for each sequence, by request and index.

        Raises RefusedError if one could not be admitted, or could not begin before its deadline.
        """
        completions = {(request.id, index): Completion() for request in requests for index in range(request.n)}
        if any(request.n < 1 for request in requests):
            raise ValueError("a request has n below 1: ask for at least one sequence")
        if len({request.id for request in requests}) != len(requests):
            raise ValueError("two requests have the same id")
        for request in requests:
            self.engine.add(request)
        try:
            self._run(completions)
        except RefusedError:
            self.engine.abort([request.id for request in requests])
            raise
        finally:
            self.engine.settle()
        return list(completions.values())

    def _run(self, completions: dict[tuple[str, int], Completion]) -> None:
        """Fill these in, to the end of each."""
        unfinished = len(completions)
        while unfinished:
            outputs = self.engine.step()
            if outputs is None:
                time.sleep(self.engine.scheduler.gathering_s())
                continue
            for output in outputs.outputs:
                if output.error is not None:
                    raise RefusedError(f"request {output.id}: {output.error.message}")
                completion = completions[output.id, output.index]
                completion.token_ids += output.token_ids
                completion.cached_tokens += output.cached_tokens
                completion.finish_reason = output.finish_reason
                unfinished -= output.finish_reason is not None
