"""The runtime's command line for a service. `tests/contract` compares it with the runtime's own table of flags."""

from octavo_operator import names
from octavo_operator.desired import attachments
from octavo_operator.service import Service

_DEVICES = {"gpu": "cuda", "cpu": "cpu"}


def serve_args(service: Service) -> list[str]:
    """Arguments of `octavo` that serve the model. What the spec leaves open is left to the runtime."""
    runtime = service.runtime
    flags: dict[str, str | int | bool | None] = {
        "served-model-name": service.model.served_name,
        "device": _DEVICES[service.device],
        "dtype": service.model.dtype,
        "tensor-parallel-size": service.parallelism.tensor,
        # The LeaderWorkerSet tells each pod its number and its leader in the environment.
        "nodes": service.parallelism.nodes if service.parallelism.nodes > 1 else None,
        "block-size": runtime.block_size,
        "max-num-seqs": runtime.max_num_seqs,
        "max-num-batched-tokens": runtime.max_num_batched_tokens,
        "max-model-len": runtime.max_model_len,
        "gpu-memory-percent": runtime.gpu_memory_percent,
        "scheduler-delay-ms": runtime.scheduler_delay_ms,
        "chunked-prefill": runtime.chunked_prefill,
        "prefix-caching": runtime.prefix_caching,
        "kv-cache-memory": runtime.kv_cache.memory,
        "kv-cache-dtype": runtime.kv_cache.dtype,
        "kv-tier-memory": runtime.kv_cache.cpu_tier,
        "kv-budget-tokens": runtime.kv_cache.budget_tokens,
        "warmup-sequences": runtime.warmup.sequences,
        "warmup-max-seconds": runtime.warmup.max_s,
        "memory-ladder": runtime.degradation.enabled,
        "allow-lossy": runtime.degradation.allow_lossy,
        "host": "0.0.0.0",
        "port": names.API_PORT,
        "health-port": names.HEALTH_PORT,
        "run-dir": names.RUN_DIR,
        "drain-timeout": service.rollout.drain_timeout_s,
        **attachments.flags(service),
    }
    own = [_flag(name, value) for name, value in flags.items() if value is not None]
    return [_literal(argument) for argument in ("serve", model_argument(service), *own, *runtime.extra_args)]


def drain_command(service: Service) -> list[str]:
    """What the pod runs before it stops: it answers while endpoints settle, then refuses, and returns when nothing is in flight."""
    return [
        "octavo",
        "drain",
        f"--run-dir={names.RUN_DIR}",
        f"--settle={names.DRAIN_SETTLE_S}",
        f"--timeout={service.rollout.drain_timeout_s}",
    ]


def _flag(name: str, value: str | int | bool) -> str:
    """A switch is `--name` or `--no-name`; everything else takes its value with it."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name}={value}"


def _literal(argument: str) -> str:
    """`argument` as the container gets it: Kubernetes expands `$(NAME)` in arguments and reads each `$$` as one `$`."""
    return argument.replace("$", "$$")


def model_argument(service: Service) -> str:
    """The model as the runtime is told it, in the container."""
    source = service.model.source
    if source.hub is not None:
        return source.hub
    if source.claim is None and source.image is None:
        return f"file://{source.path}"
    return f"{names.MODEL_DIR}/{source.path}".rstrip("/")
