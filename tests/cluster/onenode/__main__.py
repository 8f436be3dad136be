"""Command line of the one-node cluster: `python -m tests.cluster.onenode up|down|status|registry`."""

import argparse
import sys

from tests.cluster.onenode import layout, lifecycle
from tests.cluster.onenode.errors import OneNodeError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.onenode", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the cluster; nothing happens where a healthy one runs")
    down = commands.add_parser("down", help="end it, and whatever a crashed one left")
    down.add_argument("--purge", action="store_true", help="also remove all pulled and pushed images")
    commands.add_parser("status", help="exit 0 and print the kubeconfig where it is up and healthy, else 1")
    commands.add_parser("registry", help="start only the loopback registry and print its address")
    options = parser.parse_args()
    try:
        return _run(options)
    except OneNodeError as error:
        print(f"onenode: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "up":
            lifecycle.up()
        case "down":
            lifecycle.down(purge=options.purge)
        case "registry":
            print(lifecycle.ensure_registry())
        case "status":
            healthy = lifecycle.is_healthy()
            print(f"up: {layout.KUBECONFIG}" if healthy else "down")
            return 0 if healthy else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
