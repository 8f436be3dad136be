"""`octavo serve`: the engine process first, then the server's libraries, so that both load at the same time."""

import dataclasses
import gc
import logging
import os
import shlex
import sys
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.ranks.placement import placement
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.engine_process import end_engine, start_engine
from octavo_runtime.server.run_dir import DEFAULT, held_run_dir
from octavo_runtime.weights_folder import settled_folder

log = logging.getLogger("octavo")


def serve(config: ServeConfig) -> int:
    """Until a signal ends it; the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        if not config.model_path.exists():
            raise ConfigError(
                f"the model {config.model_path} does not exist: give the path of a GGUF file or a model folder"
            )
        placed = placement(config, os.environ)
        with held_run_dir(config.run_dir) as run_dir:
            if placed.node:
                from octavo_runtime.cli_follow import follow

                return follow(dataclasses.replace(config, run_dir=str(run_dir)), placed)
            if run_dir != DEFAULT:
                log.info("drain with: octavo drain --run-dir %s", shlex.quote(str(run_dir)))
            weights = settled_folder(config.weights_cache, os.environ)
            return _serve(dataclasses.replace(config, run_dir=str(run_dir), weights_cache=weights), run_dir)
    except ConfigError as error:
        print(f"octavo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the server's own handlers were there
        return 130


def _serve(config: ServeConfig, run_dir: Path) -> int:
    heartbeat = Heartbeat.open(run_dir)
    heartbeat.reset()  # a crashed server may have left an old one
    engine = start_engine(config)
    try:
        # These take a second: the engine is loading meanwhile. What they make stays, so nobody looks for garbage in it.
        gc.disable()
        import asyncio

        from octavo_runtime.server import process

        gc.freeze()
        gc.enable()
        return asyncio.run(process.serve(config, engine, run_dir, heartbeat))
    finally:
        end_engine(engine)
        heartbeat.close()
