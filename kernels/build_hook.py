"""Compiles the CPU kernels when the package is built or installed editable; without a compiler, says so and goes on.

What was compiled belongs into the wheel, which is then one for this platform. OCTAVO_REQUIRE_CPU_KERNELS=1 makes a missing compiler an
error: for images, which would else be built slow.
"""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CpuKernels(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        sys.path.insert(0, str(Path(self.root) / "kernels"))
        from octavo_kernels.cpu.build import CompilerError, build

        try:
            libraries = build()
        except CompilerError as error:
            if os.environ.get("OCTAVO_REQUIRE_CPU_KERNELS") == "1":
                raise
            self.app.display_warning(f"the CPU kernels are not built, plain torch will compute instead: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version != "editable":
            build_data["force_include"].update({str(path): f"octavo_kernels/cpu/lib/{path.name}" for path in libraries})
