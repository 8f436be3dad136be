import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_runtime.text.stop_strings import StopStrings


def run(stops: list[str], pieces: list[str], keep_stop: bool = False) -> tuple[str, str | None]:
    """The text a client gets of `pieces`, and the stop string that ended it."""
    search, text = StopStrings(stops, keep_stop), ""
    for piece in pieces:
        found = search.feed(piece)
        text += found.text
        if found.stop is not None:
            return text, found.stop
    return text + search.finish(), None


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        pytest.param([], ["ab", "c"], ("abc", None), id="no stops"),
        pytest.param(["x"], ["ab", "c"], ("abc", None), id="no match"),
        pytest.param(["END"], ["one EN", "D two"], ("one ", "END"), id="across pieces"),
        pytest.param(
            ["END"], ["one EN", "E"], ("one ENE", None), id="held text is given when it cannot match any more"
        ),
        pytest.param(["END"], ["one EN"], ("one EN", None), id="held text is given at the end"),
        pytest.param(["cd", "bcde"], ["abcdef"], ("ab", "cd"), id="the match that completes first wins"),
        pytest.param(["bc", "abc"], ["abc"], ("a", "bc"), id="tie: the first of the list"),
        pytest.param(["abc", "bc"], ["abc"], ("", "abc"), id="tie: the list in the other order"),
        pytest.param(["aab"], ["aa", "ab"], ("a", "aab"), id="overlapping beginnings"),
        pytest.param(["\n\n"], ["a\n", "b\n", "\nc"], ("a\nb", "\n\n"), id="newlines"),
        pytest.param(["🦙!"], ["llama 🦙", "!"], ("llama ", "🦙!"), id="characters, not bytes"),
    ],
)
def test_ends_the_text_at_the_first_stop(stops: list[str], pieces: list[str], expected: tuple[str, str | None]) -> None:
    assert run(stops, pieces) == expected


def test_keeps_the_stop_string_when_asked() -> None:
    assert run(["END"], ["one E", "ND two"], keep_stop=True) == ("one END", "END")


def test_gives_at_once_what_cannot_become_a_stop() -> None:
    search = StopStrings(["END"])
    assert [search.feed(piece).text for piece in ["one", " ", "E", "x", "EN"]] == ["one", " ", "", "Ex", ""]


def brute_force(stops: list[str], text: str) -> tuple[str, str | None]:
    """The definition: at the first character that completes a stop, the first of the list that it completes."""
    for end in range(1, len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4),
    pieces=st.lists(st.text("abc", max_size=5), max_size=8),
)
def test_is_the_definition_however_the_text_is_cut(stops: list[str], pieces: list[str]) -> None:
    assert run(stops, pieces) == brute_force(stops, "".join(pieces))


@given(stops=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4), text=st.text("abc", max_size=20))
def test_never_gives_the_beginning_of_a_stop_that_follows(stops: list[str], text: str) -> None:
    search, given_text = StopStrings(stops), ""
    expected, stop = brute_force(stops, text)
    for character in text:
        found = search.feed(character)
        given_text += found.text
        assert expected.startswith(given_text)
        if found.stop is not None:
            break
    assert stop is not None or given_text + search.finish() == text
