"""The HTTP application: routes to stories, and one form for every error."""

import functools
import time
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

import octavo_runtime
from octavo_runtime.server import probes
from octavo_runtime.server.answer import Answer
from octavo_runtime.server.api_keys import KeyGate
from octavo_runtime.server.bodies import unread
from octavo_runtime.server.chat import chat_job
from octavo_runtime.server.completions import completion_job
from octavo_runtime.server.errors import (
    ApiError,
    BadRequestError,
    EngineFailedError,
    NotFoundError,
    UnavailableError,
    from_validation,
)
from octavo_runtime.server.leaving import TellsToLeave
from octavo_runtime.server.options import check_ids
from octavo_runtime.server.probe_answer import PATHS
from octavo_runtime.server.prompt import chat_text
from octavo_runtime.server.request_ids import NamesRequests
from octavo_runtime.server.schema import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    ErrorBody,
    Options,
    TokenizeRequest,
)
from octavo_runtime.server.service import NOT_READY_RETRY_AFTER_S, Service, off_loop
from octavo_runtime.server.surrogates import check_body

MAX_BODY_BYTES = 64 << 20
_REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "the request cannot be honoured; `param` names the field"}
}


def build_app(service: Service, probe: probes.Probes) -> FastAPI:
    app = FastAPI(
        title="Octavo",
        version=octavo_runtime.__version__,
        docs_url=None,
        redoc_url=None,
        max_body_size=MAX_BODY_BYTES,
        dependencies=[Depends(check_body)],
        responses={"default": {"model": ErrorBody, "description": "any other error"}},
    )
    _add_error_handlers(app)
    _add_generation(app, service, probe)
    _add_information(app, service)
    _add_probes(app, probe)
    _add_head(app)
    if service.keys is not None:
        app.add_middleware(KeyGate, keys=service.keys)
    app.add_middleware(TellsToLeave, drain=service.drain)
    app.add_middleware(NamesRequests)
    return app


def _add_generation(app: FastAPI, service: Service, probe: probes.Probes) -> None:
    def refuse_if_hung() -> None:
        """A request to an engine that stands still would wait for ever; those in flight may still be answered."""
        reason = probe.engine_hung_reason()
        if reason is not None:
            raise UnavailableError(reason, "not_ready", NOT_READY_RETRY_AFTER_S)

    def salt(http: Request, options: Options) -> bytes:
        header = service.tenants.header
        return service.tenants.salt(http.headers.getlist(header) if header else [], options.cache_salt)

    @app.post("/v1/chat/completions", responses=_REFUSED)
    async def chat_completions(http: Request, request: ChatRequest) -> Response:
        refuse_if_hung()
        return Answer(service, functools.partial(chat_job, service, request, salt(http, request)))

    @app.post("/v1/completions", responses=_REFUSED)
    async def completions(http: Request, request: CompletionRequest) -> Response:
        refuse_if_hung()
        return Answer(service, functools.partial(completion_job, service, request, salt(http, request)))


def _add_information(app: FastAPI, service: Service) -> None:
    started = int(time.time())

    def model() -> dict[str, object]:
        length = service.engine_info().max_model_len
        owner = {"id": service.config.model_name, "object": "model", "created": started, "owned_by": "octavo"}
        return owner | {"max_model_len": length}

    @app.get("/v1/models")
    async def models() -> Response:
        return _json({"object": "list", "data": [model()]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        service.check_model(name)
        return _json(model())

    @app.get("/version")
    async def version() -> Response:
        return _json({"version": octavo_runtime.__version__})

    @app.post("/tokenize", responses=_REFUSED)
    async def tokenize(request: TokenizeRequest) -> Response:
        service.check_model(request.model)
        return _json(await off_loop(_tokenize, service, request))

    @app.post("/detokenize", responses=_REFUSED)
    async def detokenize(request: DetokenizeRequest) -> Response:
        service.check_model(request.model)
        check_ids(request.tokens, service.text.tokenizer.vocab_size, "tokens")
        return _json({"prompt": await off_loop(service.text.tokenizer.decode, request.tokens, False)})


def _add_probes(app: FastAPI, probe: probes.Probes) -> None:
    async def answer_probe(request: Request) -> Response:
        answer = probe.answer(request.url.path)
        assert answer is not None, request.url.path
        return Response(answer.body, answer.status, media_type=answer.content_type)

    for path in PATHS:
        app.add_api_route(path, answer_probe, methods=["GET"], include_in_schema=False)


def _add_head(app: FastAPI) -> None:
    """HEAD wherever GET is answered; uvicorn leaves the body out."""
    for route in list(app.routes):
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            app.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)


def _tokenize(service: Service, request: TokenizeRequest) -> dict[str, object]:
    tokenizer = service.text.tokenizer
    if request.messages is not None:
        text = chat_text(service.text, request.messages, request.add_generation_prompt, None)
        ids = tokenizer.encode(text, bool(request.add_special_tokens))
    else:
        ids = tokenizer.encode(request.prompt or "", request.add_special_tokens is not False)
    answer: dict[str, object] = {"count": len(ids), "max_model_len": service.engine_info().max_model_len, "tokens": ids}
    return answer | {"token_strs": [tokenizer.token_of(one) for one in ids]} if request.return_token_strs else answer


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return _error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _error(from_validation(list(error.errors())))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return _error(_from_http(request, error))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        """The framework logs the traceback after this."""
        return _error(EngineFailedError("the server failed at this request; its log says why"))


def _from_http(request: Request, error: HTTPException) -> ApiError:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NotFoundError(f"there is nothing at {request.url.path}")
    if (told := unread(error.__cause__)) is not None:
        return told
    wrapped = BadRequestError(f"{request.method} {request.url.path}: {error.detail}")
    wrapped.status = error.status_code
    return wrapped


def _error(error: ApiError) -> Response:
    return Response(error.body(), error.status, headers=error.headers(), media_type="application/json")


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")
