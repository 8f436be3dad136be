"""What a budget of KV tokens costs in quality, and brings in sessions: the pages kept by importance, or the newest, beside all.

    octavo bench selective [--model PATH] [--context 3072] [--budgets 256 512 1024] [--needles 4] [--sessions 12] [--quick]
    python -m bench.selective …                                       the same

Quality is measured on English text, the documentation that comes with Python's `help()`: one text of `--context` tokens, read by
all caches beside each other. Counted are the tokens behind the largest budget: the perplexity; how far the distribution is from the
whole history's (mean KL, nats); how often the likeliest token is the same; how many tokens, of those that the model then writes by
itself, are the same before the first other one. A needle is a sentence with a number, hidden in such a text at some depth; it is
found if the model, asked at the end, writes the number. A sliding window keeps the first page and the newest ones.

Sessions: the whole engine in a KV memory that holds four histories; how many ran at once, and the tokens a second of all.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from bench.kv_quality_model import Model, load
from bench.kv_quality_text import needles, reading
from bench.machine import machine
from bench.selective_reading import Keeping
from bench.selective_scores import GREEDY_TOKENS, Score, scores
from bench.selective_sessions import ANSWER_TOKENS, Load, Served, serve
from octavo_runtime.text import model_text
from tests.runtime.models import smollm2_path

HISTORIES = 4  # whole ones that the KV memory of the sessions holds
QUALITY = ("kept", "budget", "perplexity", "KL", "same top token", f"alike of {GREEDY_TOKENS}", "needles")
SESSIONS = ("budget", "sessions at once", "of all kept", "tokens/s")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.quick:
        asked.context, asked.budgets, asked.needles, asked.sessions, asked.prompt = 256, [128], 1, 5, 200
    budgets = sorted(asked.budgets)
    if budgets[-1] >= asked.context or budgets[-1] >= asked.prompt:
        raise SystemExit(f"a budget of {budgets[-1]} evicts nothing of {min(asked.context, asked.prompt)} tokens")
    tokenizer = model_text.load(asked.model).tokenizer
    model = load(asked.model, asked.context + 256)
    print(f"{asked.model.name}, {model.dtype}, {next(iter(model.backends.values())).name} kernels, on {machine()}")
    keepings = [Keeping(), *(Keeping(budget, weighs) for budget in budgets for weighs in (False, True))]
    text = reading(tokenizer, asked.context)
    print(
        f"{asked.context:,} tokens of text, of which those behind the first {budgets[-1]:,} count; {asked.needles} needles"
    )
    found = scores(model, keepings, text, needles(tokenizer, asked.needles, asked.context - 64))
    print(table([QUALITY, *(_row(keeping, score) for keeping, score in found.items())]))
    if asked.sessions:
        size = HISTORIES * (asked.prompt + ANSWER_TOKENS) * _token_bytes(model)
        print(
            f"\n{asked.sessions} sessions of {asked.prompt:,} + {ANSWER_TOKENS} tokens, {size / 2**20:.0f} MiB of KV memory"
        )
        crowd = Load(asked.model, size, asked.sessions, asked.prompt)
        served = {budget: serve(crowd, budget) for budget in (None, *budgets)}
        print(table([SESSIONS, *(_served_row(budget, one, served[None]) for budget, one in served.items())]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="octavo bench selective", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2)")
    parser.add_argument("--context", type=int, default=3072, help="tokens of text (default: 3072)")
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=[256, 512, 1024], help="tokens (default: 256 512 1024)"
    )
    parser.add_argument("--needles", type=int, default=4, help="hidden sentences (default: 4)")
    parser.add_argument("--sessions", type=int, default=12, help="of the sessions' part; 0: without it (default: 12)")
    parser.add_argument("--prompt", type=int, default=1536, help="tokens of a session's prompt (default: 1536)")
    parser.add_argument("--quick", action="store_true", help="a few tokens only: whether it runs")
    return parser


def _token_bytes(model: Model) -> int:
    return model.token_bytes(next(iter(model.backends)))


def _row(keeping: Keeping, score: Score) -> tuple[str, ...]:
    return (
        keeping.name,
        "–" if keeping.budget_tokens is None else f"{keeping.budget_tokens:,}",
        f"{math.exp(score.surprise / score.tokens):.3f}",
        f"{score.divergence / score.tokens:.4f}",
        f"{score.same_top / score.tokens:.1%}",
        f"{score.alike}",
        f"{score.found} of {score.needles}",
    )


def _served_row(budget: int | None, served: Served, whole: Served) -> tuple[str, ...]:
    return (
        "–" if budget is None else f"{budget:,}",
        f"{served.at_once}",
        f"{served.at_once / whole.at_once:.1f} ×",
        f"{served.tokens_per_s:.0f}",
    )


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Markdown, aligned for a terminal; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
