"""`octavo serve` on a node other than 0: keeps this node's ranks running, which node 0's engine leads.

There is no API here; the health port answers `/live` alone. When a rank ends, the others of this node are ended with it: node 0's
engine does the same, starts again, and the new ranks here wait for it. Standard library and our own torch-free modules only.
"""

import dataclasses
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.ranks.placement import Placement
from octavo_runtime.engine.ranks.processes import (
    CANNOT_START,
    LOST_OTHERS,
    end_ranks,
    how_it_ended,
    ranks_folder,
    start_rank,
)
from octavo_runtime.engine.ranks.verdict import last_step
from octavo_runtime.engine.ranks.wire import tell_end
from octavo_runtime.engine.ranks.words import Words
from octavo_runtime.server.health_server import HealthServer
from octavo_runtime.server.probe_answer import ProbeAnswer

log = logging.getLogger("octavo")

_LOOK_EVERY_S = 0.2
_PAUSE_S = 1.0  # before ranks are started again
_LEADER_ENDS_IN_S = 20.0  # after its drain; a pod has 30 s more than the drain
_SILENT_AFTER_S = 15.0  # a rank's own thread tells every second that it lives


def follow(config: ServeConfig, placed: Placement, health: HealthServer | None = None) -> int:
    """Until a signal, or until a rank says that it cannot start; the exit code. Raises ConfigError.

    `health`: the port where it is open already. SIGTERM is how a pod is told to end, and then node 0's pod is told, too: ranks
    that serve stay until it has drained. SIGINT ends them at once.
    """
    stop, hurry = threading.Event(), threading.Event()

    def end_at_once(*_: object) -> None:
        hurry.set()
        stop.set()

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, end_at_once)
    health = _health(config, FollowerProbes(placed), health)
    ranks = f"ranks {placed.ranks_here.start} to {placed.ranks_here.stop - 1}"
    log.info("node %d of %d: %s of %d, led by %s", placed.node, placed.nodes, ranks, placed.size, placed.leader)
    try:
        while not stop.is_set():
            why, again = _run_ranks(config, placed, stop, hurry)
            if why is None:
                break
            log.error("%s", why)
            if not again:
                return 1
            stop.wait(_PAUSE_S)
    finally:
        health.stop()
    return 0


def _health(config: ServeConfig, probes: "FollowerProbes", opened: HealthServer | None) -> HealthServer:
    if opened is not None:
        opened.probes = probes
        return opened
    try:
        health = HealthServer(config.host, config.health_port, probes)
    except OSError as error:
        raise ConfigError(
            f"--health-port {config.health_port}: {error.strerror}; give another --health-port"
        ) from error
    health.start()
    return health


def _run_ranks(
    config: ServeConfig, placed: Placement, stop: threading.Event, hurry: threading.Event
) -> tuple[str | None, bool]:
    """Run this node's ranks until one of them ends, or to the signal; → why, None for a signal, and whether to try again."""
    with ranks_folder(config) as folder:
        words = Words(Path(folder) / "words", placed.size)
        processes = {rank: start_rank(config, rank, Path(folder)) for rank in placed.ranks_here}
        try:
            while not stop.wait(_LOOK_EVERY_S):
                failed = _failed(processes, words)
                if failed is not None:
                    rank, how, again = failed
                    word = words.read(rank)
                    why = f"{how}: {word.reason}" if word.reason else how
                    tell_end(placed.leader, dataclasses.replace(word, reason=why))
                    return f"rank {rank}: {why}; {last_step(word)}", again
            _let_drain(processes, words, hurry, config.drain_timeout + _LEADER_ENDS_IN_S)
            return None, False
        finally:
            end_ranks(list(processes.values()))
            words.close()


def _let_drain(
    processes: Mapping[int, "subprocess.Popen[bytes]"], words: Words, hurry: threading.Event, patience_s: float
) -> None:
    """Wait, while ranks serve, until they end because node 0 is gone."""
    until_s = time.monotonic() + patience_s
    while all(words.read(rank).serving for rank in processes) and _failed(processes, words) is None:
        if time.monotonic() > until_s or hurry.wait(_LOOK_EVERY_S):
            return


def _failed(processes: Mapping[int, "subprocess.Popen[bytes]"], words: Words) -> tuple[int, str, bool] | None:
    """The rank, what became of it, and whether to try again. One that ended because it lost others is named last."""
    ended = {rank: code for rank, process in processes.items() if (code := process.poll()) is not None}
    if ended:
        rank = min(ended, key=lambda rank: ended[rank] == LOST_OTHERS)
        return rank, how_it_ended(ended[rank]), ended[rank] != CANNOT_START
    for rank in processes:
        told_at_s = words.read(rank).told_at_s
        if told_at_s and time.monotonic() - told_at_s > _SILENT_AFTER_S:
            return rank, f"silent for {_SILENT_AFTER_S:.0f} s", True
    return None


class FollowerProbes:
    """What the health port of such a node answers."""

    def __init__(self, placed: Placement) -> None:
        self._text = f"node {placed.node} of {placed.nodes}, process {os.getpid()}: its ranks follow {placed.leader}\n"

    def answer(self, path: str) -> ProbeAnswer | None:
        return ProbeAnswer(200, "text/plain; charset=utf-8", self._text.encode()) if path == "/live" else None
