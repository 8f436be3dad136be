"""How many answers a prompt gets: one, `n` samples, or the `n` best of a beam search. Pure.

A beam search takes the likeliest tokens, so what would make it draw otherwise is refused by name rather than ignored. Its answers
come at the end, best first; a stop string cuts the text of a beam that is done.
"""

from octavo_runtime.messages import BeamSearch
from octavo_runtime.server.errors import BadRequestError
from octavo_runtime.server.schema import Options

MAX_CHOICES = 4096
NEUTRAL_FOR_BEAMS: dict[str, tuple[float | None, ...]] = {
    "temperature": (None, 0),
    "top_p": (None, 1),
    "top_k": (None, 0, -1),
    "min_p": (None, 0),
}


def check_total(prompts: int, options: Options) -> None:
    """Raises BadRequestError when all prompts' choices together are more than one answer is to hold."""
    if prompts * options.choices > MAX_CHOICES:
        raise BadRequestError(
            f"{prompts} prompts with n {options.choices} are {prompts * options.choices} choices, more than {MAX_CHOICES}: "
            "send several requests",
            param="n",
        )


def check_samples(options: Options, max_num_seqs: int, greedy: bool) -> None:
    """Raises BadRequestError for more samples than run at once, for samples that would be all the same, and for beams' options."""
    number = options.choices
    _check_number("n", number, max_num_seqs)
    if number > 1 and greedy:
        raise BadRequestError(
            f"n {number} at temperature 0 would give the same text {number} times: raise the temperature, or set "
            "use_beam_search to true",
            param="n",
        )
    for name, unused in (
        ("beam_width", options.beam_width is None),
        ("length_penalty", options.length_penalty in (None, 1)),
    ):
        if not unused:
            raise BadRequestError(
                f"{name} is for beam search only: set use_beam_search to true or leave it out", param=name
            )


def beam_search(options: Options, max_num_seqs: int) -> BeamSearch | None:
    """The beam search that the client asks for, as wide as `n` unless it says wider; None for samples. Raises BadRequestError."""
    if not options.use_beam_search:
        return None
    if options.stream:
        raise BadRequestError("stream: a beam search has no text before its end: set stream to false", param="stream")
    for name, neutral in NEUTRAL_FOR_BEAMS.items():
        if getattr(options, name) not in neutral:
            raise BadRequestError(
                f"{name} {getattr(options, name):g} means nothing to a beam search: leave it out or give {neutral[1]}",
                param=name,
            )
    _check_number("n", options.choices, max_num_seqs)
    width = options.choices if options.beam_width is None else options.beam_width
    _check_number("beam_width", width, max_num_seqs)
    if width < options.choices:
        raise BadRequestError(
            f"n {options.choices} is more than the beam_width {width}: lower n or raise beam_width", param="n"
        )
    return BeamSearch(width, 1.0 if options.length_penalty is None else options.length_penalty)


def _check_number(name: str, number: int, max_num_seqs: int) -> None:
    if number > max_num_seqs:
        raise BadRequestError(
            f"{name} {number} is more than --max-num-seqs {max_num_seqs}, the sequences that run at once: "
            "lower it or send several requests",
            param=name,
        )
