"""Content is named so that only equal tokens with an equal history, of an equal model and tenant, can be taken for each other."""

import dataclasses
import itertools

import pytest

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.prefix_index import CacheIdentity, Content, PrefixIndex, chain_key, extend_chain, root_key

IDENTITY = CacheIdentity(weights=b"weights", kv_format="bf16", page_size=16, rope="rope")
ROOT = root_key(IDENTITY, None, b"")


def keys_of(tokens: list[int], root: bytes = ROOT, page_size: int = 4) -> list[bytes]:
    keys: list[bytes] = []
    extend_chain(keys, root, tokens, page_size)
    return keys


def index_of(*contents: tuple[int, bytes, tuple[int, ...]]) -> PrefixIndex:
    """(page, parent, tokens) each."""
    index = PrefixIndex()
    for page, parent, tokens in contents:
        index.publish(page, chain_key(parent, tokens), Content(parent, tokens))
    return index


def test_a_chain_has_a_key_for_each_full_page() -> None:
    assert [len(keys_of([1] * length)) for length in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]
    first, second = keys_of([1, 2, 3, 4, 5, 6, 7, 8])
    assert first == chain_key(ROOT, [1, 2, 3, 4])
    assert second == chain_key(first, [5, 6, 7, 8])


def test_a_chain_grows_to_the_same_keys() -> None:
    tokens = list(range(20))
    grown: list[bytes] = []
    for length in range(21):
        extend_chain(grown, ROOT, tokens[:length], 4)
    assert grown == keys_of(tokens)


def test_a_key_depends_on_all_that_comes_before() -> None:
    tokens = list(range(12))
    for changed in range(12):
        other = [*tokens[:changed], 99, *tokens[changed + 1 :]]
        differ = [one != another for one, another in zip(keys_of(tokens), keys_of(other), strict=True)]
        assert differ == [page >= changed // 4 for page in range(3)]


def test_token_ids_keep_their_borders() -> None:
    tokens = ([1, 2], [2, 1], [1, 2, 0], [0, 1, 2], [258], [1 + 2 * 2**16], [1, 2 * 2**8], [2**32 - 1], [2**16 - 1])
    assert len({chain_key(ROOT, one) for one in tokens}) == len(tokens)


def test_equal_origins_have_equal_roots() -> None:
    assert root_key(CacheIdentity(b"weights", "bf16", 16, "rope"), None, b"") == ROOT


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"weights": b"other"}, id="weights"),
        pytest.param({"kv_format": "fp32"}, id="KV format"),
        pytest.param({"page_size": 32}, id="page size"),
        pytest.param({"rope": "other"}, id="rope"),
    ],
)
def test_the_root_depends_on_each_part_of_the_model(changes: dict[str, object]) -> None:
    assert root_key(dataclasses.replace(IDENTITY, **changes), None, b"") != ROOT  # type: ignore[arg-type]  # a table


def test_the_root_depends_on_adapter_and_salt() -> None:
    roots = {root_key(IDENTITY, adapter, salt) for adapter in (None, "", "a", "b") for salt in (b"", b"a", b"b")}
    assert len(roots) == 12


def test_parts_of_the_root_are_not_taken_for_each_other() -> None:
    """Text that moves over the border of two parts gives another root."""
    splits = [("", "abc"), ("a", "bc"), ("ab", "c"), ("abc", "")]
    roots = [root_key(dataclasses.replace(IDENTITY, rope=one), other, b"") for one, other in splits]
    roots += [root_key(IDENTITY, one, other.encode()) for one, other in splits]
    roots += [root_key(CacheIdentity(one.encode(), other, 16, "rope"), None, b"") for one, other in splits]
    for one, another in itertools.combinations(roots, 2):
        assert one != another


def test_full_pages_are_found_by_their_key() -> None:
    index = index_of((7, ROOT, (1, 2, 3, 4)))
    assert index.find(chain_key(ROOT, [1, 2, 3, 4]), ROOT, [1, 2, 3, 4]) == 7
    assert index.find(chain_key(ROOT, [1, 2, 3, 5]), ROOT, [1, 2, 3, 5]) is None


@pytest.mark.parametrize(
    ("parent", "tokens"),
    [
        pytest.param(ROOT, (9, 9, 9, 9), id="other tokens"),
        pytest.param(ROOT, (1, 2, 3), id="fewer tokens"),
        pytest.param(b"elsewhere", (1, 2, 3, 4), id="another history"),
    ],
)
def test_a_collision_is_not_served(parent: bytes, tokens: tuple[int, ...]) -> None:
    """A page whose key is, by forgery, that of other content."""
    pool = BlockPool(total=2, page_size=4)
    (page,) = pool.take(1) or []
    key = chain_key(ROOT, [1, 2, 3, 4])
    pool.publish(page, key, parent, tokens)
    match = pool.match(ROOT, [key], [1, 2, 3, 4, 5], 4)
    honest = 3 if tokens == (1, 2, 3) else 0  # these it does hold
    assert (match.tokens, match.pages) == (honest, [page] if honest else [])


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        pytest.param([1, 2, 3, 4], (13, 3), id="the longest in common"),
        pytest.param([1, 2, 9, 9], (13, 2), id="the newest of equals"),
        pytest.param([1, 9], (14, 1), id="one token"),
        pytest.param([1, 5, 6, 7], (14, 3), id="more than the page has"),
        pytest.param([9, 2, 3], None, id="none in common"),
        pytest.param([], None, id="no tokens"),
    ],
)
def test_a_tail_is_found_by_what_it_has_in_common(tokens: list[int], found: tuple[int, int] | None) -> None:
    index = index_of(
        (11, ROOT, (1, 2)), (12, b"elsewhere", (1, 2, 3, 4)), (13, ROOT, (1, 2, 3, 5)), (14, ROOT, (1, 5, 6))
    )
    assert index.longest(ROOT, tokens) == found


def test_a_prompt_is_compared_with_a_bounded_number_of_tails() -> None:
    best, others = (1, ROOT, (1, 2, 3)), [(2 + i, ROOT, (1, 100 + i)) for i in range(15)]
    assert index_of(best, *others).longest(ROOT, [1, 2, 3]) == (1, 3)
    assert index_of(best, *others, (50, ROOT, (1, 99))).longest(ROOT, [1, 2, 3]) == (50, 1)


def test_the_first_of_two_equal_pages_is_the_one_that_is_found() -> None:
    index = index_of((1, ROOT, (1, 2, 3, 4)), (2, ROOT, (1, 2, 3, 4)))
    key = chain_key(ROOT, [1, 2, 3, 4])
    assert index.find(key, ROOT, [1, 2, 3, 4]) == 1
    assert 2 not in index
    index.forget(2)
    assert index.find(key, ROOT, [1, 2, 3, 4]) == 1
    index.forget(1)
    assert index.find(key, ROOT, [1, 2, 3, 4]) is None
    index.publish(2, key, Content(ROOT, (1, 2, 3, 4)))
    assert index.find(key, ROOT, [1, 2, 3, 4]) == 2


def test_a_page_has_one_name_at_a_time() -> None:
    index = index_of((1, ROOT, (1, 2)), (1, ROOT, (1, 2, 3, 4)))
    assert index.filled(1) == 4
    assert len(index) == 1
    assert index.longest(ROOT, [1, 2, 9]) == (1, 2)
    index.forget(1)
    assert (len(index), index.filled(1), index.longest(ROOT, [1, 2])) == (0, 0, None)


@pytest.mark.parametrize(
    ("most", "tokens", "pages"),
    [
        pytest.param(10, 10, 3, id="into the tail"),
        pytest.param(9, 9, 3, id="a part of the tail"),
        pytest.param(8, 8, 2, id="full pages"),
        pytest.param(7, 7, 2, id="a part of a full page"),
        pytest.param(0, 0, 0, id="nothing"),
    ],
)
def test_a_prompt_finds_no_more_than_it_may_use(most: int, tokens: int, pages: int) -> None:
    pool = BlockPool(total=3, page_size=4)
    table, prompt = pool.take(3) or [], list(range(10))
    keys = keys_of(prompt)
    pool.publish(table[0], keys[0], ROOT, prompt[:4])
    pool.publish(table[1], keys[1], keys[0], prompt[4:8])
    pool.publish(table[2], chain_key(keys[1], prompt[8:]), keys[1], prompt[8:])
    match = pool.match(ROOT, keys, prompt, most)
    assert (match.tokens, match.pages) == (tokens, table[:pages])


def test_a_hole_in_the_chain_ends_the_match() -> None:
    pool = BlockPool(total=2, page_size=4)
    table, prompt = pool.take(2) or [], list(range(10))
    keys = keys_of(prompt)
    pool.publish(table[1], keys[1], keys[0], prompt[4:8])
    assert pool.match(ROOT, keys, prompt, 10).tokens == 0
