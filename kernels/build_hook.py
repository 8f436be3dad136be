"""Compiles the CPU kernels when the package is built or installed editable; without a compiler, says so and goes on.

What was compiled belongs into the wheel, which is then one for this platform. What is compiled and current is taken as it is: so
an image without a compiler gets the kernels of the checkout that it is built from.
"""

import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CpuKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or platform.machine() != "x86_64":
            return
        sys.path.insert(0, str(Path(self.root) / "kernels"))
        from octavo_kernels.cpu.build import CompilerError, build

        try:
            libraries = build()
        except CompilerError as error:
            self.app.display_warning(f"the CPU kernels are not built, plain torch will compute instead: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if version != "editable":
            build_data["force_include"].update({str(path): f"octavo_kernels/cpu/lib/{path.name}" for path in libraries})
