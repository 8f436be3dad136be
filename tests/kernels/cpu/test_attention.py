"""Rotation, the write of keys and values, and attention over pages, in every tier, against the plain torch definition."""

import dataclasses
import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import kv_form, reference
from octavo_kernels.cpu.kernels import CpuKernels
from octavo_kernels.cpu.pages import Pages
from octavo_kernels.kv_form import KV_KINDS, Forms, KvForm, KvKind

POSITIONS = 1200
NAN, LARGE = 0xFF, 0x71  # in every byte: no number in any kind; large ones in all


@dataclasses.dataclass(frozen=True)
class Case:
    heads: int
    kv_heads: int
    dim: int
    page: int
    window: int | None
    sequences: tuple[tuple[int, int], ...]  # (tokens in the cache before, tokens of the step)
    kinds: tuple[tuple[KvKind, KvKind], ...] = (
        ("dense", "dense"),
    )  # of sequence i: number i, around again; pages are alike long

    @property
    def forms(self) -> list[KvForm]:
        return [KvForm(self.page, *kinds) for kinds in self.kinds]


CASES = {
    "decode": Case(9, 3, 64, 32, None, ((0, 1), (5, 1), (31, 1), (32, 1), (255, 1), (256, 1), (700, 1))),
    "chunks": Case(9, 3, 64, 32, None, ((100, 1), (0, 40), (250, 33), (33, 2))),
    "small pages": Case(4, 4, 16, 16, None, ((15, 1), (16, 1), (300, 5))),
    "large pages": Case(8, 1, 128, 128, None, ((3, 1), (127, 9))),
    "dimension of five panels": Case(8, 2, 80, 64, None, ((64, 1), (10, 20))),
    "one head for many": Case(32, 1, 32, 32, None, ((40, 1), (0, 3))),
    "window": Case(6, 2, 64, 32, 40, ((0, 1), (39, 1), (40, 1), (700, 1), (290, 30))),
}


KINDS: dict[str, tuple[tuple[KvKind, KvKind], ...]] = {
    "int8": (("int8", "int8"),),
    "fp8": (("fp8", "fp8"),),
    "dense keys": (("dense", "int8"),),
    "dense values": (("fp8", "dense"),),
    "side by side": (("dense", "dense"), ("int8", "int8"), ("int8", "fp8")),
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
        self.layout = Pages(case.heads, case.kv_heads, case.dim, case.forms)
        self.layer = torch.full((sum(counts) + 4, self.layout.page_bytes), NAN, dtype=torch.uint8)
        for page in itertools.chain(*self.pages):
            self.layer[page] = LARGE
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
        form = self.form(index)
        forms = Forms(torch.full((end - begin,), form, dtype=torch.uint8), torch.tensor([form], dtype=torch.uint8))
        self.kernels.rotate_and_write(self.layout, qkv, self.angles, positions, None, self.layer, slots, forms)
        return qkv[:, : self.case.heads]

    def form(self, index: int) -> int:
        return index % len(self.case.kinds)

    def step(self) -> Tensor:
        """All sequences' last tokens in one step: `[T, heads, dim]`."""
        return self.attend(range(len(self.ends)))

    def attend(self, indices: "range | list[int]") -> Tensor:
        q, table, cu_q, kv_len, forms = self.batch(indices)
        out, case = torch.full(q.shape, torch.nan), self.case
        self.kernels.attend(self.layout, q, self.layer, table, cu_q, kv_len, case.dim**-0.5, case.window, out, forms)
        return out

    def weigh(self, chosen: list[int], before: float) -> Tensor:
        """What is added to `before` for the pages of some of all sequences: `[chosen, P]`."""
        q, table, cu_q, kv_len, forms = self.batch(range(len(self.ends)))
        mass = torch.full((len(chosen), table.shape[1]), before)
        weighed = torch.tensor(chosen, dtype=torch.int32), mass
        self.kernels.weigh(self.layout, q, self.layer, table, cu_q, kv_len, self.case.dim**-0.5, weighed, forms)
        return mass

    def batch(self, indices: "range | list[int]") -> tuple[Tensor, Tensor, Tensor, Tensor, Forms]:
        """q, page_table, cu_q, kv_len and forms of these sequences' last tokens."""
        parts = [self.case.sequences[index] for index in indices]
        q = torch.cat(
            [self.write(index, *(sum(part[:n]) for n in (1, 2))) for index, part in zip(indices, parts, strict=True)]
        )
        width = max(len(self.pages[index]) for index in indices)
        table = torch.tensor([self.pages[index] + [0] * (width - len(self.pages[index])) for index in indices])
        cu_q = torch.tensor([0, *itertools.accumulate(count for _, count in parts)], dtype=torch.int32)
        kv_len = torch.tensor([sum(part) for part in parts], dtype=torch.int32)
        numbers = torch.tensor([self.form(index) for index in indices], dtype=torch.uint8)
        forms = Forms(numbers.repeat_interleave(torch.tensor([count for _, count in parts])), numbers)
        return q, table, cu_q, kv_len, forms

    def expected(self, index: int) -> Tensor:
        """By the definition, in fp64 from what the cache holds."""
        case, end = self.case, self.ends[index]
        q, k, v = (x.unsqueeze(0) for x in self.seen(index))
        begin = case.sequences[index][0]
        visible = reference.visible_slots(torch.arange(begin, end), end, case.window).unsqueeze(0)
        return reference.attend_rows(q, k, v, visible, case.dim**-0.5)[0]

    def expected_mass(self, index: int) -> Tensor:
        """The same of the attention that a sequence's pages get."""
        case, end, count = self.case, self.ends[index], len(self.pages[index])
        q, k, _ = self.seen(index)
        k = functional.pad(k, (0, 0, 0, count * case.page - end))
        visible = reference.visible_slots(torch.arange(case.sequences[index][0], end), k.shape[1], None)
        return reference.attention_to_pages(q, k, visible, case.dim**-0.5, case.page)

    def seen(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """A sequence's queries of the step `[R, heads, dim]`, and keys and values `[kv_heads, end, dim]` that the cache holds."""
        case, end = self.case, self.ends[index]
        qkv = self.qkv[index].double()
        cos, sin = (table[:end].double() for table in self.angles)
        q, k, v = torch.split(qkv, [case.heads, case.kv_heads, case.kv_heads], dim=1)
        q, k = reference.rope(q, cos, sin), reference.rope(k, cos, sin)
        kinds = case.kinds[self.form(index)]
        k, v = (held(x, kind).transpose(0, 1) for x, kind in zip((k, v), kinds, strict=True))
        return q[case.sequences[index][0] :], k, v


def held(x: Tensor, kind: KvKind) -> Tensor:
    """What a cache gives back of x."""
    return x.bfloat16().double() if kind == "dense" else kv_form.decode(*kv_form.encode(x, kind), kind).double()


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("name", ["decode", "chunks", "dimension of five panels", "small pages", "window"])
def test_attention_over_eight_bits_is_that_of_what_they_say(
    kernels: CpuKernels, name: str, kinds: tuple[tuple[KvKind, KvKind], ...]
) -> None:
    test_attention_is_that_of_the_definition(kernels, dataclasses.replace(CASES[name], kinds=kinds))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_is_that_of_the_definition(kernels: CpuKernels, case: Case) -> None:
    stage = Stage(case, kernels)
    got = stage.step().double()
    expected = torch.cat([stage.expected(index) for index in range(len(case.sequences))])
    tolerance = 2e-4 if kernels.tier == "avx2" else 2e-2  # tiers of bf16 instructions round queries and weights
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


WEIGHED = ("decode", "chunks", "small pages", "large pages", "dimension of five panels", "one head for many")


@pytest.mark.parametrize("kinds", [(("dense", "dense"),), KINDS["side by side"]], ids=["dense", "side by side"])
@pytest.mark.parametrize("name", WEIGHED)
def test_attention_to_pages_is_that_of_the_definition(
    kernels: CpuKernels, name: str, kinds: tuple[tuple[KvKind, KvKind], ...]
) -> None:
    """Of some sequences of the batch, added to what is there; what lies behind their pages stays."""
    stage = Stage(dataclasses.replace(CASES[name], kinds=kinds), kernels)
    chosen = list(range(0, len(stage.ends), 2))
    tolerance = 2e-4 if kernels.tier == "avx2" else 2e-2
    for index, mass in zip(chosen, stage.weigh(chosen, before=0.5), strict=True):
        expected = stage.expected_mass(index)
        torch.testing.assert_close(mass[: len(expected)] - 0.5, expected, rtol=tolerance, atol=tolerance)
        assert bool((mass[len(expected) :] == 0.5).all())


@pytest.mark.parametrize("kinds", [(("dense", "dense"),), KINDS["side by side"]], ids=["dense", "side by side"])
@pytest.mark.parametrize("name", ["decode", "chunks", "window"])
def test_a_sequence_has_the_same_bits_alone_and_in_company(
    kernels: CpuKernels, name: str, kinds: tuple[tuple[KvKind, KvKind], ...]
) -> None:
    stage = Stage(dataclasses.replace(CASES[name], kinds=kinds), kernels)
    together = torch.split(stage.step(), [count for _, count in stage.case.sequences])
    for index, rows in enumerate(together):
        assert torch.equal(stage.attend([index]), rows)


@pytest.mark.parametrize("kind", KV_KINDS)
def test_a_token_has_the_same_bits_in_a_chunk_and_alone(kernels: CpuKernels, kind: KvKind) -> None:
    kinds = ((kind, kind),)
    chunk = Stage(Case(9, 3, 64, 32, None, ((250, 33),), kinds), kernels).step()
    alone = Stage(Case(9, 3, 64, 32, None, ((282, 1),), kinds), kernels)
    assert torch.equal(alone.step()[0], chunk[-1])


def test_heads_are_normed_before_they_are_rotated(kernels: CpuKernels) -> None:
    stage = Stage(Case(4, 2, 64, 32, None, ((0, 3),)), kernels)
    q_norm, k_norm = torch.rand(64), torch.rand(64)
    qkv = stage.qkv[0].clone()
    slots = stage.pages[0][0] * 32 + torch.arange(3)
    stage.kernels.rotate_and_write(
        stage.layout, qkv, stage.angles, torch.arange(3), (q_norm, k_norm, 1e-5), stage.layer, slots
    )
    cos, sin = (table[:3] for table in stage.angles)
    q, k, v = torch.split(stage.qkv[0], [4, 2, 2], dim=1)
    expected = [reference.rope(reference.rms_norm(x, w, 1e-5), cos, sin) for x, w in ((q, q_norm), (k, k_norm))]
    torch.testing.assert_close(qkv, torch.cat([*expected, v], dim=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KV_KINDS)
def test_what_is_stored_is_finite(kernels: CpuKernels, kind: KvKind) -> None:
    """A page is read to its end: a number that is none in another's tail would spoil what a zero weight hides."""
    stage = Stage(Case(4, 2, 64, 32, None, ((0, 3),), ((kind, kind),)), kernels)
    qkv = torch.full((1, 8, 64), torch.nan)
    qkv[0, 4], qkv[0, 6] = torch.inf, -torch.inf
    qkv[0, 5], qkv[0, 7] = 1e38, 0.0
    stage.layer.zero_()
    slots = torch.tensor([stage.pages[0][0] * 32 + 7])
    stage.kernels.rotate_and_write(stage.layout, qkv, stage.angles, torch.tensor([0]), None, stage.layer, slots)
    page = stage.layer[stage.pages[0][0]]
    if kind == "dense":
        assert bool(page.view(torch.bfloat16).isfinite().all())
        return
    codes, scales = page[: 32 * 2 * 2 * 64], page[32 * 2 * 2 * 64 :].view(torch.float16)
    assert bool(scales.isfinite().all())
    assert bool(kv_form.decode(codes, torch.ones(()), kind).isfinite().all())


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_codes_and_scales_are_those_of_the_definition(kernels: CpuKernels, kind: KvKind) -> None:
    """One token in slot 7 of a page of 16: its key and its value, of one head, from tiny to beyond fp16."""
    layout, angles = Pages(1, 1, 64, [KvForm(16, kind, kind)]), (torch.ones(1, 32), torch.zeros(1, 32))
    for exponent in (-40.0, -9.0, -3.0, 0.0, 5.0, 30.0):
        qkv = torch.randn(1, 3, 64, generator=torch.Generator().manual_seed(3)) * 10**exponent
        layer = torch.zeros(2, layout.page_bytes, dtype=torch.uint8)
        kernels.rotate_and_write(layout, qkv.clone(), angles, torch.tensor([0]), None, layer, torch.tensor([16 + 7]))
        codes, scales = layer[1, : 2 * 16 * 64], layer[1, 2 * 16 * 64 :].view(torch.float16)
        keys, values = codes[: 16 * 64].view(32, 16, 2), codes[16 * 64 :].view(4, 8, 16, 2)
        got = torch.stack([keys[:, 7].flatten(), values[:, 3, :, 1].flatten()])
        expected = kv_form.encode(qkv[0, 1:], kind)
        assert torch.equal(got, expected[0])
        assert torch.equal(scales[[7, 16 + 7]], expected[1])


def test_more_threads_give_the_same_bits(kernels: CpuKernels) -> None:
    before = Stage(CASES["chunks"], kernels).step()
    assert kernels._library.octavo_start(5) == 0
    assert torch.equal(Stage(CASES["chunks"], kernels).step(), before)
