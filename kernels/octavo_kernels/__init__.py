"""Kernels of the Octavo runtime and the plain torch reference of each. Imports nothing but torch, triton and numpy."""
