"""Text at the border of the model: tokenizer, chat template, incremental detokenizer, stop strings. No torch, no transformers."""
