"""How much of a GPU's memory is for KV pages: what weights, the workspace of the largest steps and a reserve leave."""

from octavo_sizing.budget import FRAGMENTS, GPU_RESERVE_BYTES, GPU_RESERVE_SHARE


def spare_bytes(free_bytes: int, total_bytes: int, workspace_bytes: int, percent: int) -> int:
    """`free_bytes` with weights loaded and nothing else; `workspace_bytes`: the most that a step was seen to ask for; `percent`: of
    the memory, what weights, workspace and KV pages may take together.

    The reserve, 1 GiB or 2 % of the memory, is for recorded graphs and what libraries take besides. A step asks for tensors of many
    sizes, which do not fill the blocks of torch's cache: a quarter more.
    """
    reserve = max(GPU_RESERVE_BYTES, int(GPU_RESERVE_SHARE * total_bytes))
    allowed = min(total_bytes - reserve, total_bytes * percent // 100)
    return max(0, allowed - (total_bytes - free_bytes) - int(FRAGMENTS * workspace_bytes))
