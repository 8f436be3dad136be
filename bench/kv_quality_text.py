"""What `bench kv_quality` reads: the interpreter's own documentation, and sentences that are hidden in it to be asked for."""

import dataclasses
import pydoc_data.topics
import random

from octavo_runtime.text.tokenizer import Tokenizer

_THINGS = ("safe", "garage", "library", "cellar", "boat", "tower", "garden", "locker", "attic", "office")


def reading(tokenizer: Tokenizer, tokens: int) -> list[int]:
    """The first `tokens` ids of the topics that `help()` knows, in the order of the alphabet."""
    text = "\n\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
    ids = tokenizer.encode(text[: 8 * tokens + 4096], add_special_tokens=False)
    if len(ids) < tokens:
        raise ValueError(f"the text has {len(ids):,} tokens, {tokens:,} were asked for: lower --tokens or --context")
    return ids[:tokens]


@dataclasses.dataclass(frozen=True)
class Needle:
    """`ids`: a text with the hidden sentence, the question, and as its last `answer` ones the right answer."""

    ids: list[int]
    answer: int


def needles(tokenizer: Tokenizer, count: int, context: int) -> list[Needle]:
    """Each about `context` tokens long, its sentence at another depth and with another number."""
    source = random.Random(0)
    hay = reading(tokenizer, context)
    return [_needle(tokenizer, hay, source, (index + 0.5) / count) for index in range(count)]


def _needle(tokenizer: Tokenizer, hay: list[int], source: random.Random, depth: float) -> Needle:
    thing, number = source.choice(_THINGS), str(source.randrange(10_000, 100_000))
    at = int(depth * len(hay))
    sentence, question, answer = (
        tokenizer.encode(text, add_special_tokens=False)
        for text in (
            f"\n\nThe code of the {thing} is {number}. Remember it.\n\n",
            f"\n\nQuestion: What is the code of the {thing}?\nAnswer: The code of the {thing} is ",
            number,
        )
    )
    return Needle([*hay[:at], *sentence, *hay[at:], *question, *answer], len(answer))
