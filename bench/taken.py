"""A neighbour that takes a share of one core: busy for that share of every 20 ms, until it is ended.

python -m bench.taken 0.1
"""

import sys
import time

PERIOD_S = 0.02


def take(share: float) -> None:
    """Never returns."""
    while True:
        begun_s = time.perf_counter()
        while time.perf_counter() < begun_s + share * PERIOD_S:
            pass
        time.sleep((1 - share) * PERIOD_S)


if __name__ == "__main__":
    take(float(sys.argv[1]))
