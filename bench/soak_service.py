"""The server that the soak runs against: a real `octavo serve` on a tiny seeded model, so small in memory and queue that it is
always short of both."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.runtime.server.running import RunningServer, running_server
from tests.runtime.server.tiny_model import HEAD_DIM, KV_HEADS, LAYERS, save_tiny_chat_model

MODEL = "tiny"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
CONTEXT_TOKENS = 1024
MAX_NUM_SEQS = 32
MAX_QUEUED = 16
PAGES, PAGE_TOKENS = 200, 16
_PAGE_BYTES = LAYERS * 2 * PAGE_TOKENS * KV_HEADS * HEAD_DIM * 4  # keys and values, fp32
FLAGS = {
    "--dtype": "float32",
    "--block-size": f"{PAGE_TOKENS}",
    "--kv-cache-memory": f"{(PAGES + 1) * _PAGE_BYTES}",  # one more is the sink
    "--max-model-len": f"{CONTEXT_TOKENS}",
    "--max-num-seqs": f"{MAX_NUM_SEQS}",
    "--max-num-queued-reqs": f"{MAX_QUEUED}",
    "--max-num-batched-tokens": "256",
}


@contextlib.contextmanager
def soak_server(switches: list[str]) -> Iterator[RunningServer]:
    """The server, ready; `switches` are further flags. Killed at the end of the block if it still runs."""
    with tempfile.TemporaryDirectory(prefix="octavo-soak-") as folder:
        model = Path(folder) / "model"
        model.mkdir()
        flags = [part for flag in FLAGS.items() for part in flag]
        with running_server(save_tiny_chat_model(model), Path(folder), *flags, *switches) as server:
            yield server
