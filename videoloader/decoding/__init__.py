"""From packets to surfaces: one protocol, two engines."""

from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.nvdec import NvdecDecoder, why_not_nvdec

__all__ = ["CpuDecoder", "NvdecDecoder", "why_not_nvdec"]
