"""A rank's process, see `processes.py`."""

import json
import os
import sys
from pathlib import Path

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.parent import die_with_parent


def main() -> int:
    die_with_parent(int(sys.argv[2]))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see `octavo_runtime/engine/__main__.py`
    config = ServeConfig(**json.loads(sys.argv[1]))
    from octavo_runtime.engine.ranks import member  # imports torch: seconds in which the parent may already end

    pool = int(sys.argv[5]) if len(sys.argv) > 5 else None
    return member.main(config, int(sys.argv[3]), Path(sys.argv[4]), pool)


if __name__ == "__main__":
    sys.exit(main())
