"""Which ranks there are, and which of them run on this node: from the flags, or the environment that a LeaderWorkerSet sets.

Node 0 leads: it has rank 0, the scheduler and the API. The others follow. Every node has as many ranks, in the order of nodes.
"""

import dataclasses
from collections.abc import Mapping

from octavo_runtime.config import ConfigError, ServeConfig

RENDEZVOUS_PORT = 29500  # where ranks of several nodes find each other
RANK_PORT = 29600  # rank 0 hears of other nodes' ranks here, and has for rank r's plans the port r higher
MOST_RANKS = 64  # so many ports


@dataclasses.dataclass(frozen=True)
class Placement:
    """`leader`: the name or address of node 0, where there are several nodes."""

    size: int
    nodes: int = 1
    node: int = 0
    leader: str = ""

    @property
    def ranks_here(self) -> range:
        count = self.size // self.nodes
        return range(self.node * count, (self.node + 1) * count)

    @property
    def remote_ranks(self) -> list[int]:
        """Those that run on other nodes than node 0."""
        return list(range(self.size // self.nodes, self.size))


def placement(config: ServeConfig, environment: Mapping[str, str]) -> Placement:
    """Raises ConfigError for degrees and nodes that contradict each other."""
    size = config.tensor_parallel_size
    nodes = config.nodes if config.nodes is not None else _number(environment, "LWS_GROUP_SIZE")
    if nodes is None or nodes == 1:
        return Placement(size)
    node = config.node_rank if config.node_rank is not None else _number(environment, "LWS_WORKER_INDEX")
    leader = config.rendezvous or environment.get("LWS_LEADER_ADDRESS", "")
    if node is None or not leader:
        missing = "--rendezvous (or LWS_LEADER_ADDRESS)" if node is not None else "--node-rank (or LWS_WORKER_INDEX)"
        raise ConfigError(f"--nodes {nodes}: {missing} is not set: give every node its number and node 0's address")
    if node >= nodes:
        raise ConfigError(f"--node-rank {node}: of {nodes} nodes (--nodes) the last is {nodes - 1}")
    if size % nodes or size > MOST_RANKS:
        most = MOST_RANKS // nodes * nodes
        raise ConfigError(
            f"--tensor-parallel-size {size} is not shared evenly by {nodes} nodes (--nodes) of together at most {MOST_RANKS} "
            f"ranks: give a multiple of {nodes} up to {most}"
        )
    return Placement(size, nodes, node, leader)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise ConfigError(f"the environment variable {name} is '{text}', not a whole number: unset it")
    return int(text)
