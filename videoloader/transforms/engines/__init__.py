"""Operations carried out on batches, on the CPU and on CUDA."""
