"""One sequence on the API side: token ids in, text out, ended by the engine or by a stop string. Pure."""

import dataclasses

from octavo_runtime.messages import Output
from octavo_runtime.server.schema import Options
from octavo_runtime.server.shapes import Ended
from octavo_runtime.text.detokenizer import detokenizer
from octavo_runtime.text.stop_strings import StopStrings
from octavo_runtime.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Delta:
    """What an output added. `ended` is set once, with the last text."""

    text: str
    ended: Ended | None = None


class SequenceText:
    """Counts tokens as the client is billed: up to the one that completed a stop string."""

    def __init__(self, options: Options, tokenizer: Tokenizer) -> None:
        self._detokenizer = detokenizer(tokenizer, options.skip_special_tokens)
        self._stops = StopStrings(options.stop or [], options.include_stop_str_in_output)
        self._min_tokens = options.min_tokens
        self._keep_stop_token = options.include_stop_str_in_output
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.stopped_here = False  # by a stop string: the engine does not know yet

    def feed(self, output: Output) -> Delta:
        """The text that the output completes. Not to be called any more after a delta that says `ended`."""
        self.cached_tokens += output.cached_tokens
        text = ""
        for position, token_id in enumerate(output.token_ids):
            self.completion_tokens += 1
            if self._is_hidden_stop(output, position):
                continue
            piece = self._detokenizer.feed(token_id)
            if self.completion_tokens <= self._min_tokens:
                text += piece  # stop strings count from min_tokens on
                continue
            found = self._stops.feed(piece)
            text += found.text
            if found.stop is not None:
                return self._stop(text, found.stop)
        return self._finish(text, output) if output.finish_reason is not None else Delta(text)

    def _is_hidden_stop(self, output: Output, position: int) -> bool:
        """The id that ended the sequence is not part of its text."""
        last = position == len(output.token_ids) - 1
        return last and output.finish_reason == "stop" and not self._keep_stop_token

    def _finish(self, text: str, output: Output) -> Delta:
        found = self._stops.feed(self._detokenizer.finish())
        text += found.text
        if found.stop is not None:
            return self._stop(text, found.stop)
        return Delta(text + self._stops.finish(), Ended(str(output.finish_reason), output.stop_reason))

    def _stop(self, text: str, stop: str) -> Delta:
        self.stopped_here = True
        return Delta(text, Ended("stop", stop))
