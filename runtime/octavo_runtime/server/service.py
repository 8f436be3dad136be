"""What the handlers of requests share: configuration, text side, engine, drain, metrics; and the checks before a request enters."""

import asyncio
import dataclasses
import secrets
from collections.abc import Callable
from typing import TypeVar

from octavo_runtime.config import ServeConfig
from octavo_runtime.messages import EngineInfo
from octavo_runtime.server.api_keys import ApiKeys
from octavo_runtime.server.drain import Drain, Pace
from octavo_runtime.server.engine_client import EngineClient
from octavo_runtime.server.errors import NotFoundError, UnavailableError
from octavo_runtime.server.metrics import Metrics
from octavo_runtime.server.options import ModelLimits
from octavo_runtime.server.tenants import Tenants
from octavo_runtime.text.model_text import ModelText

T = TypeVar("T")

NOT_READY_RETRY_AFTER_S = 2


@dataclasses.dataclass(frozen=True)
class Service:
    """One per process; its parts belong to the event loop's thread."""

    config: ServeConfig
    text: ModelText
    engine: EngineClient
    drain: Drain
    pace: Pace
    metrics: Metrics
    tenants: Tenants
    keys: ApiKeys | None = None  # None: nobody needs one

    def limits(self) -> ModelLimits:
        """Raises UnavailableError while the engine is not up."""
        info = self.engine_info()
        text = self.text
        return ModelLimits(
            info.max_model_len,
            info.model_context,
            info.max_num_seqs,
            info.vocab_size,
            text.eos_ids,
            text.sampling_defaults,
        )

    def engine_info(self) -> EngineInfo:
        if self.engine.info is None:
            raise UnavailableError(
                "the model is not loaded yet: /state tells how far it is", "not_ready", NOT_READY_RETRY_AFTER_S
            )
        return self.engine.info

    def check_model(self, name: str | None) -> None:
        """Raises NotFoundError for a model that is not the served one; None means the served one."""
        served = self.config.model_name
        if name is not None and name != served:
            raise NotFoundError(
                f"The model '{name}' does not exist: this server has '{served}'", "model", "model_not_found"
            )


def fresh_seed() -> int:
    """For a request without a seed; drawn here so that the engine needs no source of randomness."""
    return secrets.randbits(64)


async def off_loop(function: Callable[..., T], *arguments: object) -> T:
    """Run what takes long with a long prompt (template, tokenizer) in a thread, so that streams go on meanwhile."""
    return await asyncio.to_thread(function, *arguments)
