"""`python -m octavo_runtime.engine <config as JSON> <process id of the parent>`."""

import os
import sys

from octavo_runtime.engine.parent import die_with_parent


def main() -> int:
    die_with_parent(int(sys.argv[2]))
    # Read when torch is loaded. Threads that wait for each other sleep instead of spinning: with another busy process on the same
    # cores, spinning made a 32 x 576 x 3072 product 2 to 3 times slower (2 cores, load 9: 21-27 against 49-82 products a second).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from octavo_runtime.engine import process  # imports torch: seconds in which the parent may already end

    return process.main()


if __name__ == "__main__":
    sys.exit(main())
