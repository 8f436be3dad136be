"""Command line of the images: `python -m tests.cluster.images base|build|tags` (REGISTRY, BASE and TORCH_INDEX choose)."""

import argparse
import json
import os
import sys

from tests.cluster.images import build, registry
from tests.cluster.images.errors import ImagesError
from tests.cluster.images.inputs import references
from tests.cluster.onenode.errors import OneNodeError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("base", help="make a local base image with debootstrap and print its name")
    commands.add_parser(
        "build", help="build and push what the registry lacks of the images of this tree; print their names"
    )
    commands.add_parser("tags", help="print the images of this tree as JSON, built or not")
    options = parser.parse_args()
    try:
        _run(options.command)
    except (ImagesError, OneNodeError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted; what was built so far is kept", file=sys.stderr)
        return 130
    return 0


def _run(command: str) -> None:
    match command:
        case "base":
            print(build.make_base())
        case "build":
            print("\n".join(build.build(os.environ).values()))
        case "tags":
            print(json.dumps(references(registry.address(os.environ), build.build_settings(os.environ))))


if __name__ == "__main__":
    sys.exit(main())
