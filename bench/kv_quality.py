"""What 8-bit keys and values cost in quality, and give in memory and speed: every pair of formats beside the full KV cache.

    python -m bench.kv_quality [--model PATH] [--tokens 2048] [--context 1024] [--needles 6] [--rounds 5] [--quick]

Quality is measured on English text, the documentation that comes with Python's `help()`, read in windows of `--context` tokens, all
of whose keys and values are kept in the format: the perplexity; how far the distribution is from the full cache's (mean KL, nats);
how often the likeliest token is the same; how many tokens, of those that the model then writes by itself, are the same before the
first other one. A needle is a sentence with a number, hidden in such a text at some depth; it is found if the model, asked at the
end, writes the number.

A step is one of 64 sequences that decode at 256 tokens; formats take turns, the figure is the median of `--rounds` (0: none).
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.kv_quality_model import Cache, Model, load
from bench.kv_quality_scores import GREEDY_TOKENS, Score, Scores, scores
from bench.kv_quality_text import needles, reading
from bench.machine import machine
from octavo_kernels.kv_form import KvForm
from octavo_runtime.text import model_text
from tests.runtime.models import smollm2_path

STEP_ROWS, STEP_CONTEXT = 64, 256
HEADING = (
    *("keys", "values", "bytes a token", "of full", "perplexity", "KL", "same top token"),
    *(f"alike of {GREEDY_TOKENS}", "needles", "step of 64, ms", "tokens/s"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.quick:
        asked.tokens, asked.context, asked.needles, asked.rounds = 64, 64, 1, 1
    tokenizer = model_text.load(asked.model).tokenizer
    model = load(asked.model, asked.context + 256)
    ids = reading(tokenizer, asked.tokens)
    windows = [ids[start : start + asked.context] for start in range(0, len(ids), asked.context)]
    print(f"{asked.model.name}, {model.dtype}, {next(iter(model.backends.values())).name} kernels, on {machine()}")
    print(
        f"{asked.tokens:,} tokens of text in windows of {asked.context:,}; {asked.needles} needles in {asked.context:,}"
    )
    found = scores(model, windows, needles(tokenizer, asked.needles, asked.context))
    print(table(model, found, _step_times_ms(model, asked.rounds)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Quality, memory and speed of every pair of KV formats.")
    parser.add_argument("--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2)")
    parser.add_argument("--tokens", type=int, default=2048, help="of text (default: 2048)")
    parser.add_argument("--context", type=int, default=1024, help="tokens of a window (default: 1024)")
    parser.add_argument("--needles", type=int, default=6, help="hidden sentences (default: 6)")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps of each format (default: 5)")
    parser.add_argument("--quick", action="store_true", help="a few tokens only: whether it runs")
    return parser


def _step_times_ms(model: Model, rounds: int) -> dict[KvForm, float]:
    """The median step of each form; nothing without rounds."""
    if not rounds:
        return {}
    caches = {form: Cache(model, form, STEP_ROWS, STEP_CONTEXT) for form in model.backends}
    for cache in caches.values():
        cache.step_s(STEP_CONTEXT - 1)
    times = [{form: cache.step_s(STEP_CONTEXT - 1) for form, cache in caches.items()} for _ in range(rounds)]
    return {form: 1e3 * statistics.median(one[form] for one in times) for form in caches}


def table(model: Model, found: Scores, steps_ms: dict[KvForm, float]) -> str:
    """Markdown, aligned for a terminal."""
    full = model.token_bytes(next(iter(found)))
    rows = [HEADING, *(_row(model, form, score, full, steps_ms.get(form)) for form, score in found.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADING))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def _row(model: Model, form: KvForm, score: Score, full_bytes: int, step_ms: float | None) -> tuple[str, ...]:
    size = model.token_bytes(form)
    return (
        *model.names(form),
        f"{size:,}",
        f"{size / full_bytes:.0%}",
        f"{math.exp(score.surprise / score.tokens):.3f}",
        f"{score.divergence / score.tokens:.5f}",
        f"{score.same_top / score.tokens:.1%}",
        f"{GREEDY_TOKENS * score.alike / score.greedy:.0f}",
        f"{score.found} of {score.needles}",
        "–" if step_ms is None else f"{step_ms:.0f}",
        "–" if step_ms is None else f"{1e3 * STEP_ROWS / step_ms:.0f}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
