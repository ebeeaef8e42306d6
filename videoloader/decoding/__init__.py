"""From packets to surfaces: one protocol, two engines."""

from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.engine import Decode, leave_to_cpu, nvdec_decodes
from videoloader.decoding.frame_cache import FrameCache
from videoloader.decoding.nvdec import NvdecDecoder, nvdec_workers, why_not_nvdec

__all__ = [
    "CpuDecoder",
    "Decode",
    "FrameCache",
    "NvdecDecoder",
    "leave_to_cpu",
    "nvdec_decodes",
    "nvdec_workers",
    "why_not_nvdec",
]
