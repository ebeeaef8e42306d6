"""Backends that carry out operations on batches, on the CPU and on CUDA."""
