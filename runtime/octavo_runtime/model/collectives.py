"""What the ranks of one model do together: sums, gathering to rank 0, ids from rank 0. gloo between CPUs, NCCL between GPUs.

The process groups are objects of their own, not torch's global one: a process may have several engines, and a test several ranks.
Sums between CPUs are taken in fp32 whatever the operands' type, as rounding each rank's part first would lose what the CPU kernels
keep. A collective that fails, or that the others do not join in time, is a `RankError`.
"""

import datetime
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store

from octavo_runtime.model.memory_votes import MemoryVotes

TIMEOUT_S = 60.0


class RankError(RuntimeError):
    """The ranks of a model lost one another. The text names the rank, where it is known, and its last step."""


class Collectives:
    """Of one rank; `group` is torch's, which leaves it half typed. All ranks call the same methods in the same order. `tick` is
    called before each; `why` gives the reason of a failure where somebody knows more than the library's error. `votes`: how they
    agree on a rank that found no memory, where a runner makes steps of them."""

    def __init__(self, group: Any, rank: int, size: int, tick: Callable[[], None] = lambda: None) -> None:
        self.rank = rank
        self.size = size
        self.why: Callable[[str], str] = lambda text: text
        self.count, self.busy_s = 0, 0.0  # collectives so far, and the time in them, waiting for slower ranks included
        self.votes: MemoryVotes | None = None
        self._group = group
        self._tick = tick

    def hold_votes(self, most: int, sums: int) -> MemoryVotes:
        """Every step has so many sums from now on, of `most` numbers at most; it begins with `MemoryVotes.begin`."""
        self.votes = MemoryVotes(
            self.rank, self.size, most, sums, lambda part: self._run(self._group.allreduce, [part])
        )
        return self.votes

    def summed(self, part: Tensor) -> Tensor:
        """The sum over all ranks' parts, on every rank; `part` may be overwritten."""
        if part.device.type != "cpu":
            self._run(self._group.allreduce, [part])
            return part
        if self.votes is not None:
            return self.votes.summed(part)
        wide = part.float().contiguous()
        self._run(self._group.allreduce, [wide])
        return wide.to(part.dtype)

    def gathered(self, part: Tensor) -> list[Tensor] | None:
        """On rank 0 the parts of all ranks, which have one shape, by rank; None elsewhere. Comes after a step's sums."""
        part = part.contiguous()
        options = dist.GatherOptions()
        options.rootRank = 0
        parts = [torch.empty_like(part) for _ in range(self.size)] if self.rank == 0 else None
        if self.votes is not None:
            self.votes.settle()
        self._run(self._group.gather, [] if parts is None else [parts], [part], options)
        return parts

    def from_first(self, values: Tensor) -> Tensor:
        """What rank 0 has, on every rank; the others give a tensor of the same shape and type, which is overwritten."""
        options = dist.BroadcastOptions()
        options.rootRank = 0
        self._run(self._group.broadcast, [values], options)
        return values

    def least(self, value: int) -> int:
        """The least of all ranks' numbers, on every rank."""
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MIN
        held = torch.tensor([value], device=self.device)
        self._run(self._group.allreduce, [held], options)
        return int(held)

    @property
    def device(self) -> torch.device:
        """Where the tensors are that this group takes."""
        gpu = self._group.name() == "nccl"
        return torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")

    def abort(self) -> None:
        """End what waits in this group, with an error. Only NCCL needs it: gloo's waits end with the peers' processes."""
        if self._group.name() == "nccl":
            self._group.abort()

    def _run(self, collective: Callable[..., dist.Work], *arguments: object) -> None:
        self._tick()
        started_s = time.perf_counter()
        try:
            collective(*arguments).wait()
        except (RuntimeError, MemoryError) as error:
            raise RankError(self.why(f"a collective of rank {self.rank} of {self.size} failed: {error}")) from error
        self.count += 1
        self.busy_s += time.perf_counter() - started_s


def gloo_group(store: Store, rank: int, size: int, host: str) -> Any:
    """Waits for all ranks. `host`: an address of this machine that the others reach."""
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # missing in torch's types
    options._timeout = datetime.timedelta(seconds=TIMEOUT_S)
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    return dist.ProcessGroupGloo(store, rank, size, options)


def nccl_group(store: Store, rank: int, size: int) -> Any:
    """For the process's current GPU."""
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = datetime.timedelta(seconds=TIMEOUT_S)
    return dist.ProcessGroupNCCL(store, rank, size, options)
