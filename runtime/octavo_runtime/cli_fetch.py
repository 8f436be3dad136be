"""`octavo serve hf://…`: the model's files come first, while the health port tells how far they are."""

import dataclasses
import os

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.health_server import HealthServer
from octavo_runtime.server.listener import health_server
from octavo_runtime.server.probes import LoadingProbes
from octavo_runtime.source.download import Download
from octavo_runtime.source.hub import Hub, read_token
from octavo_runtime.source.reference import HubReference, SourceError
from octavo_runtime.weights_folder import models_folder


def fetch(config: ServeConfig, reference: HubReference, heartbeat: Heartbeat) -> tuple[ServeConfig, HealthServer]:
    """The configuration with what was fetched, and the health port, for the server to answer on. Raises ConfigError."""
    health = health_server(config, LoadingProbes(config, heartbeat))
    health.start()
    try:
        cache = models_folder(config.model_cache, os.environ)

        def progress(percent: int, reason: str) -> None:
            heartbeat.progress("loading", percent, reason)

        found = Download(reference, cache, Hub(read_token(config.hub_token_file)), progress).run()
    except SourceError as error:
        health.stop()
        raise ConfigError(str(error)) from error
    return dataclasses.replace(config, fetched=str(found.path), revision=found.commit), health
