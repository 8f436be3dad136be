"""The API process: HTTP in front of the engine process. No torch, no transformers."""
