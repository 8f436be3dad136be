"""The sampler's noise: Philox against its authors' known answers, Gumbel noise against its definition and its moments."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from octavo_kernels.philox import gumbel, philox

ONES = 0xFFFFFFFF
EULER_GAMMA = 0.5772156649015329


def block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]:
    """One block: four 32-bit words."""
    c0, c1, c2, c3 = (np.array([word], dtype=np.uint64) for word in counter)
    return [int(word[0]) for word in philox((c0, c1, c2, c3), key)]


# The philox4x32 rows with 10 rounds of Random123's kat_vectors file (https://github.com/DEShawResearch/random123).
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        pytest.param((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8), id="zeros"),
        pytest.param((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD), id="ones"),
        pytest.param(
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
            id="digits of pi",
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    assert block(counter, key) == list(words)


def test_gumbel_is_the_double_logarithm_of_one_word_a_token() -> None:
    seed, position = 0x0123456789ABCDEF, 77
    ids = np.arange(9)
    expected = []
    for token in range(9):
        word = block((token // 4, position, 0, 0), (0x89ABCDEF, 0x01234567))[token % 4]
        expected.append(-math.log(-math.log(((word >> 8) + 0.5) / 2**24)))
    np.testing.assert_allclose(gumbel(seed, position, ids), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([0], id="the first"),
        pytest.param([49_151], id="the last"),
        pytest.param([3, 4, 5], id="across a block"),
        pytest.param([1, 2, 900, 40_000], id="scattered"),
        pytest.param([7, 5, 7, 0], id="unsorted and repeated"),
        pytest.param(list(range(13, 333)), id="a range"),
    ],
)
def test_noise_of_some_tokens_is_that_of_the_whole_vocabulary(ids: list[int]) -> None:
    whole = gumbel(5, 12, np.arange(49_152))
    np.testing.assert_array_equal(gumbel(5, 12, np.array(ids)), whole[ids])


def test_noise_has_the_moments_of_the_gumbel_distribution() -> None:
    noise = np.concatenate([gumbel(seed, 3, np.arange(50_000)) for seed in range(4)]).astype(np.float64)
    variance = math.pi**2 / 6
    assert abs(noise.mean() - EULER_GAMMA) < 5 * math.sqrt(variance / len(noise))
    # The Gumbel distribution's kurtosis is 5.4, so the sample variance's own deviation is variance · sqrt(4.4 / n).
    assert abs(noise.var() - variance) < 5 * variance * math.sqrt(4.4 / len(noise))
    assert np.isfinite(noise).all()


def correlation(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize(
    ("seed", "position"),
    [
        pytest.param(2, 10, id="next seed"),
        pytest.param(1, 11, id="next position"),
        pytest.param(1 + 2**32, 10, id="seed that differs above 32 bits"),
        pytest.param(2**64 - 1, 10, id="largest seed"),
    ],
)
def test_noise_of_another_seed_or_position_is_unrelated(seed: int, position: int) -> None:
    ids = np.arange(10_000)
    assert abs(correlation(gumbel(1, 10, ids), gumbel(seed, position, ids))) < 0.05


def test_noise_is_the_same_each_time() -> None:
    np.testing.assert_array_equal(gumbel(9, 9, np.arange(100)), gumbel(9, 9, np.arange(100)))
