"""Set before torch is loaded: threads that wait for each other sleep, so that a busy machine does not slow them tenfold."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
