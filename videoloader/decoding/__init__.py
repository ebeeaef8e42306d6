"""From packets to surfaces: one protocol, two engines."""

from videoloader.decoding.capabilities import default_workers, why_not_nvdec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.nvdec import NvdecDecoder
from videoloader.decoding.sessions import set_decoder_memory

__all__ = ["CpuDecoder", "NvdecDecoder", "default_workers", "set_decoder_memory", "why_not_nvdec"]
