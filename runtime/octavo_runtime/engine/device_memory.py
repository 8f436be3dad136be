"""How much of a GPU's memory is for KV pages: what weights, the workspace of the largest steps and a reserve leave."""

_RESERVE_BYTES = 1 << 30
_RESERVE_SHARE = 0.02
_FRAGMENTS = 1.25


def spare_bytes(free_bytes: int, total_bytes: int, workspace_bytes: int) -> int:
    """`free_bytes` with weights loaded and nothing else; `workspace_bytes`: the most that a step was seen to ask for.

    The reserve, 1 GiB or 2 % of the memory, is for recorded graphs and what libraries take besides. A step asks for tensors of many
    sizes, which do not fill the blocks of torch's cache: a quarter more.
    """
    reserve = max(_RESERVE_BYTES, int(_RESERVE_SHARE * total_bytes))
    return max(0, free_bytes - int(_FRAGMENTS * workspace_bytes) - reserve)
