"""`python -m octavo_runtime.engine <config as JSON> <process id of the parent>`."""

import gc
import json
import os
import sys

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.parent import die_with_parent
from octavo_runtime.engine.reservation import reserve_early


def main() -> int:
    die_with_parent(int(sys.argv[2]))
    # Read when torch is loaded. Threads that wait for each other sleep instead of spinning: with another busy process on the same
    # cores, spinning made a 32 x 576 x 3072 product 2 to 3 times slower (2 cores, load 9: 21-27 against 49-82 products a second).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    config = ServeConfig(**json.loads(sys.argv[1]))
    reserved = reserve_early(config)
    # Imports make hundreds of thousands of objects that stay: looking for garbage among them took 0.6 s of torch's 3 s.
    gc.disable()
    from octavo_runtime.engine import process  # imports torch: seconds in which the parent may already end

    return process.main(config, reserved)


if __name__ == "__main__":
    sys.exit(main())
