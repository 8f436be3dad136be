"""What is told of a run: rates from the times at which tokens came, and the share of what memory bandwidth allows."""

import dataclasses

from octavo_runtime.model.config import ModelConfig

# Llama 3.1 8B without its scaled positions, which cost nothing (https://arxiv.org/abs/2407.21783, table 3).
LLAMA_8B = ModelConfig(
    vocab_size=128_256,
    hidden_size=4096,
    intermediate_size=14_336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    norm_eps=1e-5,
    rope_theta=500_000.0,
    max_position=8192,
    tied_embeddings=False,
)


@dataclasses.dataclass(frozen=True)
class Workload:
    """`batch` requests at once, each of `prompt_tokens` random ids and exactly `output_tokens` greedy tokens."""

    batch: int
    prompt_tokens: int
    output_tokens: int

    @property
    def mean_context_tokens(self) -> float:
        return self.prompt_tokens + self.output_tokens / 2


@dataclasses.dataclass(frozen=True)
class Run:
    """A workload on an engine. `decode_tokens_s`: while all of its requests decode, None where they never did at once."""

    engine: str
    workload: Workload
    seconds: float
    decode_tokens_s: float | None

    @property
    def output_tokens_s(self) -> float:
        return self.workload.batch * self.workload.output_tokens / self.seconds

    @property
    def step_ms(self) -> float | None:
        """Mean time between two tokens of a sequence while all decode."""
        return None if self.decode_tokens_s is None else 1000 * self.workload.batch / self.decode_tokens_s


def steady_rate(arrivals_s: list[list[float]]) -> float | None:
    """Tokens a second from when the last sequence has its first token until the first has its last one; None if that is no time.

    `arrivals_s[i]` are the times at which sequence i's tokens came.
    """
    begin_s = max(times[0] for times in arrivals_s)
    end_s = min(times[-1] for times in arrivals_s)
    tokens = sum(begin_s < time_s <= end_s for times in arrivals_s for time_s in times)
    return tokens / (end_s - begin_s) if end_s > begin_s else None


def step_bytes(model: ModelConfig, workload: Workload, value_bytes: int) -> int:
    """What a decode step must read: all weights but the embedding's other rows, and the keys and values of all contexts."""
    width = model.head_dim
    attention = model.hidden_size * width * (2 * model.heads + 2 * model.kv_heads)
    layer = attention + 3 * model.hidden_size * model.intermediate_size + 2 * model.hidden_size
    weights = model.layers * layer + model.hidden_size * (model.vocab_size + 1)
    kv = workload.batch * workload.mean_context_tokens * model.layers * 2 * model.kv_heads * width
    return int(value_bytes * (weights + kv))


def bandwidth_share(run: Run, model: ModelConfig, bandwidth_bytes_s: float, value_bytes: int = 2) -> float | None:
    """The shortest time in which memory can give a decode step what it reads, over the time that it took."""
    if run.step_ms is None:
        return None
    return step_bytes(model, run.workload, value_bytes) / bandwidth_bytes_s / (run.step_ms / 1000)


def table(runs: list[Run], model: ModelConfig, bandwidth_bytes_s: float) -> str:
    """Markdown, a row for each run."""
    lines = [
        "| batch | engine | output tokens/s | decode tokens/s | step ms | share of the bandwidth limit |",
        "|---|---|---|---|---|---|",
    ]
    for run in sorted(runs, key=lambda run: run.workload.batch):
        share = bandwidth_share(run, model, bandwidth_bytes_s)
        decode = f"{_text(run.decode_tokens_s, ',.0f')} | {_text(run.step_ms, '.2f')} | {_text(share, '.0%')}"
        lines.append(f"| {run.workload.batch} | {run.engine} | {run.output_tokens_s:,.0f} | {decode} |")
    return "\n".join(lines)


def _text(figure: float | None, form: str) -> str:
    return "–" if figure is None else format(figure, form)
