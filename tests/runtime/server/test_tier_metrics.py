import msgspec

from octavo_runtime.messages import StepOutputs, TierStats
from tests.runtime.server.test_metrics import STATS, families, metrics, value

MEMORY = TierStats("memory", 3, 300, hits_total=4, written_bytes_total=700, read_bytes_total=400, dropped_total=1)
DISK = TierStats("disk", 5, 510, hits_total=2, written_bytes_total=510, read_bytes_total=204, corrupt_total=1)
WITH_TIERS = msgspec.structs.replace(STATS, tiers=[MEMORY, DISK], tier_hits_tokens_total=96, swapped_total=2)


def test_each_tier_shows_what_it_holds() -> None:
    one = metrics(WITH_TIERS)
    assert [value(one, "octavo_tier_blocks", tier=tier) for tier in ("memory", "disk")] == [3, 5]
    assert [value(one, "octavo_tier_bytes", tier=tier) for tier in ("memory", "disk")] == [300, 510]


def test_totals_of_each_tier_are_followed_and_go_on_after_a_restart() -> None:
    one = metrics(WITH_TIERS)
    one.step(StepOutputs(1, [], WITH_TIERS))
    one.step(StepOutputs(2, [], WITH_TIERS))
    assert value(one, "octavo_tier_hits_blocks_total", tier="memory") == 4
    assert value(one, "octavo_tier_corrupt_blocks_total", tier="disk") == 1
    one.engine_restarted()
    one.step(StepOutputs(1, [], WITH_TIERS))
    assert value(one, "octavo_tier_hits_blocks_total", tier="memory") == 8
    assert value(one, "octavo_tier_written_bytes_total", tier="disk") == 1020
    assert value(one, "octavo_tier_read_bytes_total", tier="disk") == 408
    assert value(one, "octavo_tier_dropped_blocks_total", tier="memory") == 2
    assert value(one, "octavo_tier_hits_tokens_total") == 192
    assert value(one, "octavo_swapped_sequences_total") == 4


def test_without_tiers_none_are_shown() -> None:
    one = metrics(STATS)
    one.step(StepOutputs(1, [], STATS))
    shown = {sample.name for family in families(one).values() for sample in family.samples}
    assert not {name for name in shown if name.startswith("octavo_tier_") and name != "octavo_tier_hits_tokens_total"}
