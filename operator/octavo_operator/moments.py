"""Moments as the API writes them: RFC 3339 in UTC."""

import datetime


def time(ago_s: float = 0.0) -> str:
    """To the second, as in the conditions of a status."""
    return _moment(ago_s).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time() -> str:
    """Now, to the microsecond, as in Leases and Events."""
    return _moment().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(ago_s: float = 0.0) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago_s)
