"""`python -m octavo_runtime.engine.packing <config as JSON>`: a model into the weights' cache, for `octavo preload`.

Prints how far it is, in percent, a line each, at the end the path of the file, or why there is none (exit code 1). A process of its
own: what torch takes goes with it.
"""

import json
import logging
import sys
from collections.abc import Callable

import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine import cpu_model
from octavo_runtime.engine.memory import usable_cpus
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.packed_weights import WeightsCache
from octavo_runtime.model.weights import WeightReader, open_checkpoint

_PAGE_SIZE = 32  # any that the kernels take


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        print(pack(ServeConfig(**json.loads(sys.argv[1]))))
    except (ModelError, ConfigError) as error:
        print(error)
        return 1
    return 0


def pack(config: ServeConfig) -> str:
    """The path of the model's file, which is there and good. Raises ModelError and ConfigError."""
    checkpoint = open_checkpoint(config.model_path)
    cpu = cpu_model.choose(config, checkpoint.config, _PAGE_SIZE, usable_cpus())
    if cpu.kernels is None:
        raise ConfigError("the CPU kernels do not compute it on this machine, and only they take packed weights")
    cache = WeightsCache(config.weights_folder, checkpoint)
    reader = WeightReader(checkpoint, cpu.dtype, _told())
    with torch.inference_mode():
        Decoder(checkpoint.config, reader, 1, torch.device("cpu"), cpu.computing(cache))
    if (writing := cache.keep()) is not None:
        writing.join()
    if not cache.path.exists():
        raise ConfigError(f"the weights' cache has no file {cache.path}, see above")
    return str(cache.path)


def _told() -> Callable[[int], None]:
    """Prints each percentage once."""
    told = 0

    def tell(percent: int) -> None:
        nonlocal told
        if percent > told:
            told = percent
            print(percent, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
