"""Starts the engine process. The environment is set before torch is loaded, which reads it then and never again."""

import os
import sys

# Threads that wait for each other sleep instead of spinning: with another busy process on the same cores, spinning threads made a
# 32 × 576 × 3072 product 2 to 3 times slower (2 cores, load 9; 21-27 against 49-82 products a second).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from octavo_runtime.engine.process import main  # after the environment is set

if __name__ == "__main__":
    sys.exit(main())
