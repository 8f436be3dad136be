"""Whether the CPU kernels run on this machine."""

from octavo_kernels.cpu.library import UnavailableError, best_library


def cpu_kernels_run() -> bool:
    try:
        best_library(threads=1)
    except UnavailableError:
        return False
    return True
