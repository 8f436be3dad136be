"""Rotation, the write of keys and values, and attention over pages, in every tier, against the plain torch definition."""

import dataclasses
import itertools

import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.library import Shape

POSITIONS = 1200


@dataclasses.dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    dim: int
    page: int
    window: int | None
    sequences: tuple[tuple[int, int], ...]  # (tokens in the cache before, tokens of the step)


CASES = {
    "decode": Case(9, 3, 64, 32, None, ((0, 1), (5, 1), (31, 1), (32, 1), (255, 1), (256, 1), (700, 1))),
    "chunks": Case(9, 3, 64, 32, None, ((100, 1), (0, 40), (250, 33), (33, 2))),
    "small pages": Case(4, 4, 16, 16, None, ((15, 1), (16, 1), (300, 5))),
    "large pages": Case(8, 1, 128, 128, None, ((3, 1), (127, 9))),
    "dimension of five panels": Case(8, 2, 80, 64, None, ((64, 1), (10, 20))),
    "one head for many": Case(32, 1, 32, 32, None, ((40, 1), (0, 3))),
    "window": Case(6, 2, 64, 32, 40, ((0, 1), (39, 1), (40, 1), (700, 1), (290, 30))),
}


@dataclasses.dataclass
class Stage:
    """Keys and values of every sequence in shuffled pages; pages of nobody hold NaN, and what a page held before is large."""

    case: Case
    kernels: CpuKernels

    def __post_init__(self) -> None:
        case = self.case
        generator = torch.Generator().manual_seed(7)
        self.ends = [before + count for before, count in case.sequences]
        heads = case.heads + 2 * case.kv_heads
        self.qkv = [torch.randn(end, heads, case.dim, generator=generator) for end in self.ends]
        counts = [-(-end // case.page) for end in self.ends]
        order = (torch.randperm(sum(counts) + 3, generator=generator) + 1).tolist()
        self.pages = [[order.pop() for _ in range(count)] for count in counts]
        self.shape = Shape(case.heads, case.kv_heads, case.dim, case.page)
        self.layer = torch.full((sum(counts) + 4, 2 * case.page * case.kv_heads * case.dim), torch.nan).bfloat16()
        for page in itertools.chain(*self.pages):
            self.layer[page] = 1e30
        angles = torch.outer(torch.arange(POSITIONS), 1 / 100 ** torch.linspace(0, 1, case.dim // 2))
        self.angles = angles.cos(), angles.sin()
        for index, (before, _) in enumerate(case.sequences):
            self.write(index, 0, before)

    def write(self, index: int, begin: int, end: int) -> Tensor:
        """Tokens begin … end − 1 of a sequence; their rotated queries."""
        qkv, positions = self.qkv[index][begin:end].clone(), torch.arange(begin, end)
        slots = (
            torch.tensor(self.pages[index])[positions // self.case.page] * self.case.page + positions % self.case.page
        )
        self.kernels.rotate_and_write(self.shape, qkv, self.angles, positions, None, self.layer, slots)
        return qkv[:, : self.case.heads]

    def step(self) -> Tensor:
        """All sequences' last tokens in one step: `[T, heads, dim]`."""
        return self.attend(range(len(self.ends)))

    def attend(self, indices: "range | list[int]") -> Tensor:
        case, parts = self.case, [self.case.sequences[index] for index in indices]
        q = torch.cat(
            [self.write(index, *(sum(part[:n]) for n in (1, 2))) for index, part in zip(indices, parts, strict=True)]
        )
        width = max(len(self.pages[index]) for index in indices)
        table = torch.tensor([self.pages[index] + [0] * (width - len(self.pages[index])) for index in indices])
        cu_q = torch.tensor([0, *itertools.accumulate(count for _, count in parts)], dtype=torch.int32)
        kv_len = torch.tensor([sum(part) for part in parts], dtype=torch.int32)
        out = torch.full(q.shape, torch.nan)
        self.kernels.attend(self.shape, q, self.layer, table, cu_q, kv_len, case.dim**-0.5, case.window, out)
        return out

    def expected(self, index: int) -> Tensor:
        """By the definition, in fp64 from what the cache holds in bf16."""
        case, end = self.case, self.ends[index]
        qkv = self.qkv[index].double()
        cos, sin = (table[:end].double() for table in self.angles)
        q, k, v = torch.split(qkv, [case.heads, case.kv_heads, case.kv_heads], dim=1)
        q, k = reference.rope(q, cos, sin), reference.rope(k, cos, sin).bfloat16().double()
        k, v = (x.transpose(0, 1).unsqueeze(0) for x in (k, v.bfloat16().double()))
        begin = case.sequences[index][0]
        visible = reference.visible_slots(torch.arange(begin, end), end, case.window).unsqueeze(0)
        return reference.attend_rows(q[begin:].unsqueeze(0), k, v, visible, case.dim**-0.5)[0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_is_that_of_the_definition(kernels: CpuKernels, case: Case) -> None:
    stage = Stage(case, kernels)
    got = stage.step().double()
    expected = torch.cat([stage.expected(index) for index in range(len(case.sequences))])
    tolerance = 2e-4 if kernels.tier == "avx2" else 2e-2  # tiers of bf16 instructions round queries and weights
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["decode", "chunks", "window"])
def test_a_sequence_has_the_same_bits_alone_and_in_company(kernels: CpuKernels, name: str) -> None:
    stage = Stage(CASES[name], kernels)
    together = torch.split(stage.step(), [count for _, count in stage.case.sequences])
    for index, rows in enumerate(together):
        assert torch.equal(stage.attend([index]), rows)


def test_a_token_has_the_same_bits_in_a_chunk_and_alone(kernels: CpuKernels) -> None:
    chunk = Stage(Case(9, 3, 64, 32, None, ((250, 33),)), kernels).step()
    alone = Stage(Case(9, 3, 64, 32, None, ((282, 1),)), kernels)
    assert torch.equal(alone.step()[0], chunk[-1])


def test_heads_are_normed_before_they_are_rotated(kernels: CpuKernels) -> None:
    stage = Stage(Case(4, 2, 64, 32, None, ((0, 3),)), kernels)
    q_norm, k_norm = torch.rand(64), torch.rand(64)
    qkv = stage.qkv[0].clone()
    slots = stage.pages[0][0] * 32 + torch.arange(3)
    stage.kernels.rotate_and_write(
        stage.shape, qkv, stage.angles, torch.arange(3), (q_norm, k_norm, 1e-5), stage.layer, slots
    )
    cos, sin = (table[:3] for table in stage.angles)
    q, k, v = torch.split(stage.qkv[0], [4, 2, 2], dim=1)
    expected = [reference.rope(reference.rms_norm(x, w, 1e-5), cos, sin) for x, w in ((q, q_norm), (k, k_norm))]
    torch.testing.assert_close(qkv, torch.cat([*expected, v], dim=1), rtol=1e-5, atol=1e-5)


def test_what_is_stored_is_finite(kernels: CpuKernels) -> None:
    """A page is read to its end: a number that is none in another's tail would spoil what a zero weight hides."""
    stage = Stage(Case(4, 2, 64, 32, None, ((0, 3),)), kernels)
    qkv = torch.full((1, 8, 64), torch.nan)
    qkv[0, 4], qkv[0, 6] = torch.inf, -torch.inf
    page = stage.pages[0][0]
    stage.kernels.rotate_and_write(
        stage.shape, qkv, stage.angles, torch.tensor([0]), None, stage.layer, torch.tensor([page * 32 + 7])
    )
    assert bool(stage.layer[page].isfinite().all())


def test_more_threads_give_the_same_bits(kernels: CpuKernels) -> None:
    before = Stage(CASES["chunks"], kernels).step()
    assert kernels._library.octavo_start(5) == 0
    assert torch.equal(Stage(CASES["chunks"], kernels).step(), before)
