"""Triton kernels. Importing one costs the import of triton, so only code that runs on a GPU does."""
