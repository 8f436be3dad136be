"""Set before torch is loaded: threads that wait for each other sleep, so that a busy machine does not slow them tenfold.

And for the servers that tests start: they leave nothing in the cache of whoever runs them.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OCTAVO_WEIGHTS_CACHE", "none")
