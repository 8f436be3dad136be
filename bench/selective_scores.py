"""What a budget does to a model's predictions, for `bench selective`: every keeping reads the same text in lockstep."""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from bench.kv_quality_model import Model
from bench.kv_quality_text import Needle
from bench.selective_reading import Caches, Keeping

GREEDY_TOKENS = 48  # that each keeping goes on with by itself after the text


@dataclasses.dataclass
class Score:
    """Sums over the tokens that were predicted with pages gone; `alike`: tokens of its own that equal those of the whole history,
    up to the first that does not."""

    tokens: int = 0
    surprise: float = 0.0  # nats
    divergence: float = 0.0  # nats, of the whole history's distribution from this one
    same_top: int = 0
    alike: int = 0
    found: int = 0
    needles: int = 0


Scores = dict[Keeping, Score]


def scores(model: Model, keepings: Sequence[Keeping], text: list[int], needles: Sequence[Needle]) -> Scores:
    """The first of the keepings is the whole history."""
    found = {keeping: Score() for keeping in keepings}
    _read(model, text, found)
    for needle in needles:
        _look_for(model, needle, found)
    return found


def _read(model: Model, text: list[int], found: Scores) -> None:
    caches = Caches(model, list(found), len(text) + GREEDY_TOKENS)
    begin = max(keeping.budget_tokens or 0 for keeping in found)  # from here on all have evicted
    logits = torch.empty(0)
    for start in range(0, len(text), caches.step_tokens):
        ids = text[start : start + caches.step_tokens]
        logits = caches.read(ids)
        targets = torch.tensor(text[start + 1 : start + 1 + len(ids)])
        if start >= begin:
            _add(found, torch.log_softmax(logits[:, : len(targets)], dim=-1), targets)
    _go_on(caches, logits[:, -1].argmax(-1).tolist(), found)


def _add(found: Scores, logs: Tensor, targets: Tensor) -> None:
    """logs: log-probabilities `[keepings, R, V]`."""
    for score, own in zip(found.values(), logs, strict=True):
        score.tokens += len(targets)
        score.surprise -= float(own.gather(1, targets[:, None]).sum())
        score.divergence += float((logs[0].exp() * (logs[0] - own)).sum())
        score.same_top += int((own.argmax(-1) == logs[0].argmax(-1)).sum())


def _go_on(caches: Caches, tokens: list[int], found: Scores) -> None:
    """Each writes on by itself, greedily."""
    same = [True] * len(found)
    for _ in range(GREEDY_TOKENS):
        same = [before and token == tokens[0] for before, token in zip(same, tokens, strict=True)]
        for score, alike in zip(found.values(), same, strict=True):
            score.alike += alike
        tokens = caches.read_own(tokens).argmax(-1).tolist()


def _look_for(model: Model, needle: Needle, found: Scores) -> None:
    """The answer is found if it is what the model would write greedily."""
    caches = Caches(model, list(found), len(needle.ids))
    asked, step = len(needle.ids) - needle.answer, caches.step_tokens
    for start in range(0, asked - 1, step):
        caches.read(needle.ids[start : min(start + step, asked - 1)])
    likeliest = caches.read(needle.ids[asked - 1 : -1]).argmax(-1)
    for score, tokens in zip(found.values(), likeliest.tolist(), strict=True):
        score.needles += 1
        score.found += tokens == needle.ids[asked:]
