"""Where the files of the models lie that are to be kept: paths as they are, a hub's models in the cache that pods share."""

import dataclasses
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.preload.keeper import Progress
from octavo_runtime.source.reference import HubReference, SourceError, hub_reference
from octavo_runtime.weights_folder import models_folder

log = logging.getLogger("octavo.preload")


@dataclasses.dataclass(frozen=True)
class Places:
    """`weights`: the cache of packed weights. `models` and `token_file` as `octavo serve` takes them, for what comes from a hub."""

    weights: Path
    models: str | None = None
    token_file: str | None = None


def check(models: Sequence[str]) -> None:
    """Raises ConfigError where none is named, or one could not be."""
    if not models:
        raise ConfigError("no model is named: give paths of GGUF files or model folders, hf://org/repo, or --status")
    for model in models:
        try:
            hub_reference(model)
        except SourceError as error:
            raise ConfigError(str(error)) from error


def configs(models: Sequence[str], places: Places, progress: Progress) -> Iterator[ServeConfig]:
    """How each is served, its files being there; `progress` is told of what is fetched. Raises ConfigError."""
    for model in models:
        config = ServeConfig(model, weights_cache=str(places.weights))
        reference = hub_reference(model)
        yield config if reference is None else _fetched(config, reference, places, progress)


def _fetched(config: ServeConfig, reference: HubReference, places: Places, progress: Progress) -> ServeConfig:
    # The libraries that download take a second to import.
    from octavo_runtime.source.download import Download
    from octavo_runtime.source.hub import Hub, read_token

    try:
        hub = Hub(read_token(places.token_file))
        cache = models_folder(places.models, os.environ)
        found = Download(reference, cache, hub, lambda percent, text: progress.tell(text, percent)).run()
    except SourceError as error:
        raise ConfigError(str(error)) from error
    log.info("%s: commit %s is in %s", config.model, found.commit, found.path)
    return dataclasses.replace(config, fetched=str(found.path), revision=found.commit)
