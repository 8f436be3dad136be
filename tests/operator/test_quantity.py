import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_operator.quantity import QuantityError, canonical


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        pytest.param("1024Mi", "1Gi", id="binary suffixes grow"),
        pytest.param("1.5Gi", "1536Mi", id="a binary fraction takes a smaller suffix"),
        pytest.param("0.5", "500m", id="a fraction becomes thousandths"),
        pytest.param("1000m", "1", id="thousandths become whole"),
        pytest.param("2000M", "2G", id="decimal suffixes grow"),
        pytest.param("2000Mi", "2000Mi", id="no suffix fits better"),
        pytest.param("0.5Ki", "512", id="under 1024 a binary amount is plain"),
        pytest.param(4, "4", id="an integer"),
        pytest.param(1073741824, "1073741824", id="plain bytes stay plain"),
        pytest.param(12000, "12k", id="a plain number takes a decimal suffix"),
        pytest.param("0", "0", id="zero"),
        pytest.param("0Gi", "0", id="zero of something"),
    ],
)
def test_writes_what_the_api_server_stores(written: str | int, stored: str) -> None:
    assert canonical(written) == stored


@pytest.mark.parametrize("text", ["", "1GB", "-1", "1e3", "Gi", "1 Gi", "0.0001"])
def test_refuses_what_is_no_quantity_and_names_it(text: str) -> None:
    with pytest.raises(QuantityError, match=f"'{text}'"):
        canonical(text)


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_canonical_text_is_its_own_canonical_text(number: int, suffix: str) -> None:
    once = canonical(f"{number}{suffix}")
    assert canonical(once) == once
