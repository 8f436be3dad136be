"""Which values of `octavo serve`'s flags cannot be together, as far as the flags alone tell.

What the operator says of them, too, is in `octavo_sizing.contradictions`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from octavo_runtime.source.reference import SourceError, check_source
from octavo_sizing.contradictions import contradictions as of_any_server

if TYPE_CHECKING:
    from octavo_runtime.config import ServeConfig


def contradictions(config: "ServeConfig") -> Iterator[str]:
    """Each names the flags and the remedy."""
    try:
        check_source(config.model)
    except SourceError as error:
        yield str(error)
    if config.served_model_name is not None and not config.served_model_name.strip():
        yield "--served-model-name is empty: give a name or leave it out"
    if config.port == config.health_port:
        yield f"--port and --health-port are both {config.port}: give them different ports"
    yield from of_any_server(config)
    if config.tenant_secret_file is not None and not Path(config.tenant_secret_file).is_file():
        yield f"--tenant-secret-file {config.tenant_secret_file} is not a file: give one that holds the secret"
