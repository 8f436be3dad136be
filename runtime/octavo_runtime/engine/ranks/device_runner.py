"""The device's runner of a rank that is not alone: rank 0 draws, and the others get the ids on their devices."""

import torch
from torch import Tensor

from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.device_stream import DeviceStream
from octavo_runtime.model.attention import AttentionBackend
from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.device_sampler import DeviceRows, DeviceSampler
from octavo_runtime.model.kv_pool import KvPool


class RankDeviceRunner(DeviceRunner):
    """A `DeviceRunner`; every rank's is given the same plans."""

    def __init__(
        self,
        model: Decoder,
        backend: AttentionBackend,
        pool: KvPool,
        sampler: DeviceSampler,
        stream: DeviceStream,
        limits: RunnerLimits,
        ranks: Collectives,
    ) -> None:
        super().__init__(model, backend, pool, sampler, stream, limits)
        self._ranks = ranks

    def _choose(
        self, hidden: Tensor, banned: Tensor, parameters: DeviceRows, top: int
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """The likeliest are told on rank 0 only: nobody looks at those of others."""
        count = len(parameters.seed)
        if self._ranks.rank == 0:
            ids, offers = super()._choose(hidden, banned, parameters, top)
            return (self._ranks.from_first(ids) if count else ids), offers
        self._model.logits(hidden)  # takes part in what rank 0 gathers
        ids = torch.zeros_like(parameters.position)
        if count:
            ids = self._ranks.from_first(ids)
        nothing = torch.zeros(len(hidden) - count, top, dtype=torch.int64, device=hidden.device)
        return ids, (nothing, nothing.double()) if top else None
