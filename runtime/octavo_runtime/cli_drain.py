"""`octavo drain`: asks a running server over its control socket to drain, and says what it waits for."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

from octavo_runtime.server.in_flight import requests_in_flight

SILENCE_S = 30.0  # the server reports every second


def drain(run_dir: str, settle_s: float, timeout_s: float) -> int:
    """0 when nothing is in flight any more, 1 when the time was over or no server answers."""
    path = Path(run_dir) / "control.sock"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SILENCE_S)
            connection.connect(str(path))
            connection.sendall(json.dumps({"settle_s": settle_s, "timeout_s": timeout_s}).encode() + b"\n")
            return _follow(connection)
    except OSError as error:
        print(f"octavo drain: no server answers at {path}: {error}", file=sys.stderr)
        return 1


def _follow(connection: socket.socket) -> int:
    with connection.makefile("r") as lines:
        for line in lines:
            report = json.loads(line)
            if "error" in report:
                print(
                    f"octavo drain: the server does not understand this version's order: {report['error']}",
                    file=sys.stderr,
                )
                return 1
            print(_sentence(report), flush=True)
            if report["done"]:
                return 0 if report["in_flight"] == 0 else 1
    print("octavo drain: the server ended", file=sys.stderr)
    return 0


def _sentence(report: dict[str, Any]) -> str:
    count = report["in_flight"]
    requests = requests_in_flight(count)
    if report["done"]:
        return "drained: nothing in flight" if count == 0 else f"time is over: {requests}"
    if report["phase"] == "settling":
        return f"settling: new requests are still answered, {requests}"
    estimate = report["estimate_s"]
    return f"draining: {requests}" + (f", done in at most {estimate} s" if estimate else "")
