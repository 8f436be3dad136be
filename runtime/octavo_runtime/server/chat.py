"""`/v1/chat/completions`, as a story: messages → prompt → ids → engine → text."""

import uuid

from octavo_runtime.server.generation import Job
from octavo_runtime.server.options import ModelLimits, Origin, add_request
from octavo_runtime.server.prompt import chat_text, encode
from octavo_runtime.server.schema import ChatRequest
from octavo_runtime.server.service import Service, fresh_seed, off_loop
from octavo_runtime.server.shapes import ChatShape


async def chat_job(service: Service, request: ChatRequest, tenant_salt: bytes) -> Job:
    """What the engine is to do and how it is answered. Raises ApiError."""
    service.check_model(request.model)
    limits = service.limits()
    prompt_ids = await off_loop(_prompt_ids, service, request, limits)
    shape = ChatShape(f"chatcmpl-{uuid.uuid4().hex}", service.config.model_name, request.include_usage)
    origin = Origin(shape.id, fresh_seed(), tenant_salt)
    add = add_request(origin, request, prompt_ids, limits, default_tokens=None)
    return Job([add], request, shape)


def _prompt_ids(service: Service, request: ChatRequest, limits: ModelLimits) -> list[int]:
    text = chat_text(service.text, request.messages, request.add_generation_prompt, request.chat_template_kwargs)
    # The template writes the special tokens itself: adding them again would double BOS.
    return encode(service.text.tokenizer, text, False, request, limits.max_model_len, "messages")
