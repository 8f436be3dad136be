"""The Octavo runtime: a paged-attention engine behind an OpenAI-compatible API. `octavo serve` is its front door."""

__version__ = "0.1.0"
