"""How a number of requests is told, by the server's log and by `octavo drain`. Standard library only."""


def requests_in_flight(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'} in flight"
