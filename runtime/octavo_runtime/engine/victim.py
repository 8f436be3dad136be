"""Who gives pages back when a decoding sequence finds none: the sequence that loses least. Pure."""

from collections.abc import Collection

from octavo_runtime.engine.batch import Batch
from octavo_runtime.engine.request import Sequence, State
from octavo_runtime.engine.tables import Tables


def victim(batch: Batch, tables: Tables, besides: Collection[Sequence] = ()) -> Sequence | None:
    """Of the least urgent, the one with the least work to lose, the youngest of equals; never the first by rank, which so comes to
    its end. None where nobody else runs, but for those in `besides`.
    """

    def loss(sequence: Sequence) -> tuple[int, bool, int, int]:
        frees_nothing = tables.own_pages(sequence) == 0
        return -sequence.request.asked.priority, frees_nothing, tables.lost_tokens(sequence), -sequence.request.arrival

    others = (one for one in batch if one is not batch.first and one.state is State.RUNNING and one not in besides)
    return min(others, key=loss, default=None)
