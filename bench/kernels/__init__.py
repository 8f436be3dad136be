"""Time of each Triton kernel on a GPU, beside what the same GPU can do at most."""
