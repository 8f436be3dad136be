"""One start of transformers for `bench start`: `python -m bench.start_transformers MODEL` loads, generates a token, tells when."""

import json
import subprocess
import sys
import time
from pathlib import Path

from bench.start_octavo import TIMEOUT_S, drop, environment

CHECKOUT = Path(__file__).resolve().parents[1]


def load_once(model: Path, cold: bool) -> dict[str, float]:
    """When each phase ended, in seconds from the process's start."""
    if cold:
        drop(model)
    command = [sys.executable, "-m", "bench.start_transformers", str(model.absolute()), str(time.monotonic())]
    ran = subprocess.run(
        command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"transformers failed: {ran.stderr.strip().splitlines()[-1:]}")
    ended: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return ended


def main() -> None:
    """The clock is the same for all processes of a machine."""
    path, started_s = Path(sys.argv[1]), float(sys.argv[2])
    import torch
    import transformers  # noqa: F401  # imported here, so that it counts as an import

    from bench.static_batches import reference_model

    ended = {"imports": time.monotonic() - started_s}
    model = reference_model(path, "bfloat16")
    ended["weights and KV"] = ended["ready"] = time.monotonic() - started_s
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.inference_mode():
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False)
    ended["first token"] = time.monotonic() - started_s
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
