"""The parts of `python -m bench.gpu_e2e`."""
