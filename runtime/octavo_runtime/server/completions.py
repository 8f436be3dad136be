"""`/v1/completions`, as a story: each prompt is a request of its own to the engine, its choices in the prompts' order."""

import uuid

from octavo_runtime.server.choices import check_total
from octavo_runtime.server.generation import Job
from octavo_runtime.server.options import COMPLETION_DEFAULT_TOKENS, ModelLimits, Origin, add_request
from octavo_runtime.server.prompt import checked_ids, encode
from octavo_runtime.server.schema import CompletionRequest
from octavo_runtime.server.service import Service, fresh_seed, off_loop
from octavo_runtime.server.shapes import CompletionShape


async def completion_job(service: Service, request: CompletionRequest, tenant_salt: bytes) -> Job:
    """What the engine is to do and how it is answered. Raises ApiError."""
    service.check_model(request.model)
    limits = service.limits()
    check_total(len(request.prompt), request)
    prompts = await off_loop(_all_prompt_ids, service, request, limits)
    shape = CompletionShape(f"cmpl-{uuid.uuid4().hex}", service.config.model_name, request.include_usage)
    adds = [
        add_request(
            Origin(f"{shape.id}-{number}", fresh_seed(), tenant_salt), request, ids, limits, COMPLETION_DEFAULT_TOKENS
        )
        for number, ids in enumerate(prompts)
    ]
    return Job(adds, request, shape)


def _all_prompt_ids(service: Service, request: CompletionRequest, limits: ModelLimits) -> list[list[int]]:
    return [_prompt_ids(service, request, prompt, limits) for prompt in request.prompt]


def _prompt_ids(
    service: Service, request: CompletionRequest, prompt: str | list[int], limits: ModelLimits
) -> list[int]:
    if isinstance(prompt, str):
        tokenizer = service.text.tokenizer
        return encode(tokenizer, prompt, request.add_special_tokens, request, limits.max_model_len, "prompt")
    return checked_ids(prompt, request, limits.max_model_len, limits.vocab_size)
