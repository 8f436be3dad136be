"""The engine inside the caller's process, for scripts and benchmarks: prompts in, finished sequences out."""

import dataclasses

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


class LLM:
    """Loads and warms the model of `config`; `generate` runs a batch of requests to its end."""

    def __init__(self, config: ServeConfig) -> None:
        self.engine = Engine(config)
        self.engine.warm_up()

    def generate(self, requests: list[AddRequest]) -> list[Completion]:
        """All requests at once, each with an id of its own. Raises RefusedError if one could not be admitted."""
        completions = {request.id: Completion() for request in requests}
        if len(completions) != len(requests):
            raise ValueError("two requests have the same id")
        for request in requests:
            self.engine.add(request)
        while any(completion.finish_reason is None for completion in completions.values()):
            outputs = self.engine.step()
            assert outputs is not None  # work is left, so there is a step
            for output in outputs.outputs:
                if output.error is not None:
                    self.engine.abort(list(completions))
                    raise RefusedError(f"request {output.id}: {output.error.message}")
                completion = completions[output.id]
                completion.token_ids += output.token_ids
                completion.finish_reason = output.finish_reason
        return [completions[request.id] for request in requests]
