"""What a form of the KV cache does to a model's predictions, beside the full cache: everything is read by all forms in lockstep."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from bench.kv_quality_model import Cache, Model
from bench.kv_quality_text import Needle
from octavo_kernels.kv_form import KvForm

_CHUNK = 256  # tokens that are read at once: as many rows of logits are held for two forms
GREEDY_TOKENS = 48  # that each form goes on with by itself after a window of text


@dataclasses.dataclass
class Score:
    """Sums over the tokens that were predicted; `alike`: tokens of its own that equal the full cache's, up to the first that does
    not, and `greedy` how many there could have been."""

    tokens: int = 0
    surprise: float = 0.0  # nats
    divergence: float = 0.0  # nats, of the full cache's distribution from this one
    same_top: int = 0
    alike: int = 0
    greedy: int = 0
    found: int = 0
    needles: int = 0


Scores = dict[KvForm, Score]


def scores(model: Model, windows: Sequence[list[int]], needles: Sequence[Needle]) -> Scores:
    found: Scores = {form: Score() for form in model.backends}
    for window in windows:
        caches = {form: Cache(model, form, 1, len(window) + GREEDY_TOKENS) for form in found}
        last = _read_window(window, caches, found)
        _go_on(len(window), last, caches, found)
    for needle in needles:
        for form, score in found.items():
            score.needles += 1
            score.found += _finds(model, form, needle)
    return found


def _read_window(window: list[int], caches: dict[KvForm, Cache], found: Scores) -> dict[KvForm, int]:
    """Score every token of a window from its second on; the likeliest token after it, by form."""
    last: dict[KvForm, int] = {}
    for start in range(0, len(window), _CHUNK):
        ids = window[start : start + _CHUNK]
        targets = torch.tensor(window[start + 1 : start + 1 + _CHUNK])
        full: Tensor | None = None
        for form, cache in caches.items():
            logs = torch.log_softmax(cache.read(ids, start), dim=-1)
            last[form] = int(logs[-1].argmax())
            logs = logs[: len(targets)]
            full = logs if full is None else full
            _add(found[form], logs, full, targets)
    return last


def _add(score: Score, logs: Tensor, full: Tensor, targets: Tensor) -> None:
    """logs, full: log-probabilities `[R, V]` of this form and of the full cache."""
    score.tokens += len(targets)
    score.surprise -= float(logs.gather(1, targets[:, None]).sum())
    score.divergence += float((full.exp() * (full - logs)).sum())
    score.same_top += int((logs.argmax(-1) == full.argmax(-1)).sum())


def _go_on(position: int, last: dict[KvForm, int], caches: dict[KvForm, Cache], found: Scores) -> None:
    """Each form writes on by itself, greedily."""
    written: dict[KvForm, list[int]] = {}
    for form, cache in caches.items():
        tokens = [last[form]]
        for place in range(GREEDY_TOKENS - 1):
            tokens.append(int(cache.read(tokens[-1:], position + place)[-1].argmax()))
        written[form] = tokens
    full = next(iter(written.values()))
    for form, tokens in written.items():
        found[form].greedy += GREEDY_TOKENS
        differ = (at for at, pair in enumerate(zip(tokens, full, strict=True)) if pair[0] != pair[1])
        found[form].alike += next(differ, GREEDY_TOKENS)


def _finds(model: Model, form: KvForm, needle: Needle) -> bool:
    """Whether the answer is what the model would write greedily: each of its tokens is the likeliest after those before."""
    cache = Cache(model, form, 1, len(needle.ids))
    asked = len(needle.ids) - needle.answer
    for start in range(0, asked - 1, _CHUNK):
        cache.read(needle.ids[start : min(start + _CHUNK, asked - 1)], start)
    logits = cache.read(needle.ids[asked - 1 : -1], asked - 1)
    return logits.argmax(-1).tolist() == needle.ids[asked:]
