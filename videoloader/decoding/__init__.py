"""Decode packets to pictures on the CPU (libavcodec), with NVDEC, or with the GPU's JPEG engines."""
