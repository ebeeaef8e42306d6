"""Devices, CUDA streams, memory, threads, forked processes and ranks."""
