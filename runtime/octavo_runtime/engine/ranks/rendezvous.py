"""How the ranks find each other: over a file on one node, over node 0's port 29500 between nodes."""

import contextlib
import datetime
import socket
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from octavo_runtime.config import ConfigError
from octavo_runtime.engine.ranks.placement import RENDEZVOUS_PORT, Placement
from octavo_runtime.model.collectives import Collectives, gloo_group, nccl_group

_LOOPBACK = "127.0.0.1"
PATIENCE_S = 300.0  # for the others to start
_RETRY_S = 0.5


def own_address(placement: Placement) -> str:
    """The address at which other ranks reach this node. Waits until node 0's name is known. Raises ConfigError."""
    if placement.nodes == 1:
        return _LOOPBACK
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            return _source_of_route_to(placement.leader)
        if time.monotonic() > deadline_s:
            raise ConfigError(f"--rendezvous {placement.leader}: no such host or no way to it for {PATIENCE_S:.0f} s")
        time.sleep(_RETRY_S)


def _source_of_route_to(host: str) -> str:
    """Nothing is sent: connecting a UDP socket only asks for the route."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, RENDEZVOUS_PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        found: str = probe.getsockname()[0]
        return found


def open_store(placement: Placement, rank: int, folder: Path) -> Store:
    """`folder`: shared by the ranks of a node."""
    if placement.nodes == 1:
        return FileStore(str(folder / "store"), placement.size)
    patience = datetime.timedelta(seconds=PATIENCE_S)
    return TCPStore(placement.leader, RENDEZVOUS_PORT, placement.size, rank == 0, patience, wait_for_workers=False)


def join(store: Store, placement: Placement, rank: int, device: torch.device, tick: Callable[[], None]) -> Collectives:
    """Waits for all ranks."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
        group = nccl_group(store, rank, placement.size)
    else:
        group = gloo_group(store, rank, placement.size, own_address(placement))
    return Collectives(group, rank, placement.size, tick)
