"""Compiles the CPU kernels when the package is built or installed editable; without a compiler, says so and goes on.

With OCTAVO_REQUIRE_CPU_KERNELS, as images are built, what is lacking of them ends the build: an image would compute several times
slower than its users expect, and only its log would say so.

What was compiled belongs into the wheel, which is then one for this platform. What is compiled and current is taken as it is: so
an image without a compiler gets the kernels of the checkout that it is built from.
"""

import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_REMEDY = "run `make setup` where g++ is 12 or newer and build from that checkout, on x86_64"


class CpuKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        required = bool(os.environ.get("OCTAVO_REQUIRE_CPU_KERNELS"))
        if platform.machine() != "x86_64":
            if required:
                self.app.abort(f"there are no CPU kernels for {platform.machine()}: {_REMEDY}")
            return
        sys.path.insert(0, str(Path(self.root) / "kernels"))
        from octavo_kernels.cpu.build import CompilerError, build
        from octavo_kernels.cpu.tier import TIERS

        try:
            libraries = build()
        except CompilerError as error:
            if required:
                self.app.abort(f"the CPU kernels are not built ({error}): {_REMEDY}")
            self.app.display_warning(f"the CPU kernels are not built, plain torch will compute instead: {error}")
            return
        if required and len(libraries) < len(TIERS):
            names = ", ".join(tier.library.name for tier in TIERS if tier.library not in libraries)
            self.app.abort(f"{names}: not built, see above: {_REMEDY}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if version != "editable":
            build_data["force_include"].update({str(path): f"octavo_kernels/cpu/lib/{path.name}" for path in libraries})
