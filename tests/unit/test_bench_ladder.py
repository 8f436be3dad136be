"""The arithmetic of `bench ladder`: what the burst is, and what the table says of a run."""

import pytest

from bench.ladder import table
from bench.ladder_burst import Burst, Got, Sample, Wanted, burst, ordinary


def test_the_burst_is_so_many_pools_of_work_and_always_the_same() -> None:
    asked = burst(2048, 10, vocab_size=50, seed=3)
    assert asked == burst(2048, 10, vocab_size=50, seed=3)
    tokens = sum(len(one.prompt) + one.output for one in asked)
    assert 20480 <= tokens < 20480 + 170 + 840
    assert max(one.output for one in asked) > 5 * max(one.output for one in ordinary(2048, 100, 50, 3))
    assert all(0 <= token < 50 for one in asked for token in one.prompt)


def test_the_table_tells_the_figures_of_all_bursts() -> None:
    def got(arrives_s: float, ended_s: float | None, **fields: object) -> Got:
        return Got(Wanted([1], 4, arrives_s), first_s=arrives_s + 0.5, ended_s=ended_s, tokens=4, **fields)  # type: ignore[arg-type]  # a table

    run = Burst(
        [
            got(0.0, 2.0),
            got(1.0, 5.0, refused_s=[1.0, 1.5], degraded=["length_cap: at most 4"]),
            Got(Wanted([1], 4, 0.0)),
        ],
        [
            Sample(1.0, {"level": 7.0, "preemptions": 0.0, "ahead": 0.0}),
            Sample(7.5, {"level": 0.0, "preemptions": 3.0, "ahead": 2.0}),
        ],
        others=0.02,
    )
    second = Burst(
        [got(0.0, 3.0)],
        [Sample(0.1, {"level": 0.0, "preemptions": 3.0, "ahead": 2.0})]
        + [Sample(at_s, {"level": 5.0, "preemptions": 4.0, "ahead": 2.0}) for at_s in (1.0, 3.1)],
        others=0.01,
    )
    rows = {
        cells[1].strip(): cells[2].strip()
        for cells in (line.split("|") for line in table({"ours": [run, second]}).splitlines())
    }
    assert rows["requests answered / asked"] == "3 / 4"
    assert rows["of these capped in length"] == "1"
    assert rows["refusals (503, to come back)"] == "2"
    assert (rows["highest level"], rows["back at level 0 after the last answer"]) == ("7", "2.5 s")
    assert (rows["preemptions"], rows["of these ahead of need"]) == ("4", "2")
    assert (rows["tokens generated"], rows["last answer of a burst after"]) == ("12", "4.0 s")
    assert (rows["latency, median"], rows["latency, longest"]) == ("3.00 s", "4.00 s")
    assert float(rows["tokens a second"]) == pytest.approx(12 / 8, abs=0.5)
    assert rows["others took of the CPUs"] == "2 %"
