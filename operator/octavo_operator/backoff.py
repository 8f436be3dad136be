"""Delays that double. Pure."""


def delay_s(first_s: float, longest_s: float, times: int) -> float:
    """`first_s` after the first time, twice that after each further one, at most `longest_s`; 0 where `times` is 0."""
    if times == 0:
        return 0.0
    # What is never given up reaches exponents that no float holds.
    return min(first_s * 2.0 ** min(times - 1, 64), longest_s)
