import sys

from octavo_runtime.cli import main

sys.exit(main())
