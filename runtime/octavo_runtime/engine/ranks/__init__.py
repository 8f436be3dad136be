"""The ranks of a tensor-parallel engine: where they run, how plans reach them, and how one that fails ends them all."""
