"""What `bench` says of others on the machine."""

import subprocess
import sys

from bench.occupancy import Occupancy

_WORK = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nprint('done', flush=True)\ninput()"


def worked(ours: bool) -> float:
    """What others took while a process worked for 0.4 s of a CPU, which was one of ours or none."""
    with subprocess.Popen([sys.executable, "-c", _WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        occupancy = Occupancy([process.pid] if ours else [])
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        share = occupancy.others()
        process.communicate(b"\n")
    return share


def test_what_is_measured_is_none_of_the_others() -> None:
    """Whatever else runs: among many tries one is quiet enough to tell."""
    assert min(worked(ours=True) for _ in range(3)) < max(worked(ours=False) for _ in range(3))
