"""The kernels of the CPU path: one C++ source, compiled for each tier of instructions, called through its plain C interface."""
