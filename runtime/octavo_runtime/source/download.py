"""A hub's model in the cache: found there, or downloaded once by one of those who share it, from where a cut left it."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from octavo_runtime.source.cache import CachedModel, Fetched, amount
from octavo_runtime.source.hub import Hub, HubFile, Listing
from octavo_runtime.source.layout import INDEX, LayoutError, gguf_files, needed_files
from octavo_runtime.source.reference import HubReference, SourceError, UnreachableError
from octavo_runtime.source.transfer import PAUSES_S, Transfer

T = TypeVar("T")

log = logging.getLogger("octavo")

Progress = Callable[[int, str], None]  # percent, and what is being done; told only when something has moved


class Download:
    """`pauses_s`: before the hub is asked again when it does not answer, once each."""

    def __init__(
        self, reference: HubReference, cache: Path, hub: Hub, progress: Progress, pauses_s: Sequence[float] = PAUSES_S
    ) -> None:
        self._reference = reference
        self._model = CachedModel(cache, reference)
        self._hub = hub
        self._progress = progress
        self._pauses_s = pauses_s

    def run(self) -> Fetched:
        """The model's files. Raises SourceError.

        A commit that the cache has costs no request; a branch or tag is asked for, and is what it was last where nobody answers.
        """
        reference = self._reference
        if reference.pinned and (found := self._model.find(reference.revision)) is not None:
            return found
        known = self._model.find(self._model.last_meant())
        try:
            listing = self._patiently(lambda: self._hub.listing(reference), self._pauses_s[: 1 if known else None])
        except UnreachableError as error:
            if known is None:
                raise
            log.warning("%s; going on with commit %s, which the cache has", error, known.commit)
            return known
        found = self._model.find(listing.commit) or self._fill(listing)
        self._model.remember(listing.commit)
        return found

    def _fill(self, listing: Listing) -> Fetched:
        """Under the lock, unless somebody else has done so meanwhile."""
        commit, model = listing.commit, self._model
        files = self._patiently(lambda: chosen(self._reference, listing, self._hub), self._pauses_s)
        total_bytes = sum(file.size_bytes for file in files)

        def tell(who: str) -> Callable[[int], None]:
            text = f"{who} {self._reference}"
            return lambda there: self._progress(
                min(100, 100 * there // max(1, total_bytes)), f"{text}: {amount(there)} of {amount(total_bytes)}"
            )

        with model.explaining(), model.lock(commit, tell("another process downloads")):
            if (found := model.find(commit)) is not None:
                return found
            partial, had_bytes, began_s = model.partial(commit), model.there_bytes(commit), time.monotonic()
            model.check_room(total_bytes - had_bytes)
            tell("downloading")(had_bytes)
            transfer = Transfer(self._hub, self._reference, commit, partial, tell("downloading"))
            transfer.run(files, self._pauses_s)
            took_s = time.monotonic() - began_s
            before = f"{amount(had_bytes)} were there before"
            log.info("%s: %s in %.1f s, %s", self._reference, amount(total_bytes), took_s, before)
            return model.complete(commit)

    def _patiently(self, ask: Callable[[], T], pauses_s: Sequence[float]) -> T:
        """Ask again while the hub does not answer. Raises SourceError."""
        for pause_s in pauses_s:
            try:
                return ask()
            except UnreachableError as error:
                log.warning("%s; trying again", error)
                self._progress(0, f"trying again: {error}")
                time.sleep(pause_s)
        return ask()


def chosen(reference: HubReference, listing: Listing, hub: Hub) -> list[HubFile]:
    """What is read of the repository. Raises SourceError where that is not clear."""
    if reference.file is not None:
        names = [reference.file]
    else:
        try:
            names = needed_files(listing.names, lambda: hub.read(reference, listing.commit, INDEX))
        except LayoutError as error:
            raise SourceError(f"{reference} {error}: it is no model that can be served") from error
        names = names or [_single_gguf(reference, listing)]
    by_name = {file.name: file for file in listing.files}
    if lacking := [name for name in names if name not in by_name]:
        raise SourceError(f"{reference}: there is no {lacking[0]}; there are {_some(gguf_files(by_name))}")
    return [by_name[name] for name in names]


def _single_gguf(reference: HubReference, listing: Listing) -> str:
    files = gguf_files(listing.names)
    if not files:
        raise SourceError(f"{reference} has neither *.safetensors nor *.gguf: it is no model that can be served")
    if len(files) > 1:
        raise SourceError(
            f"{reference} has {len(files)} GGUF files: name one, such as hf://{reference.repository}/{files[0]}; there are "
            f"{_some(files)}"
        )
    return files[0]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12]) or "no GGUF files"
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown
