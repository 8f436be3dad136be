"""`python -m octavo_runtime.engine <config as JSON> <process id of the parent>`."""

import sys

from octavo_runtime.engine.parent import die_with_parent


def main() -> int:
    die_with_parent(int(sys.argv[2]))
    from octavo_runtime.engine import process  # imports torch: seconds in which the parent may already end

    return process.main()


if __name__ == "__main__":
    sys.exit(main())
