"""Decode packets to pictures on the CPU (libavcodec), with NVDEC, or with the GPU's JPEG engines."""

from videoloader.decoding.capabilities import default_workers, why_not_nvdec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run, lost_frame
from videoloader.decoding.engine import Decode, Engine, check_decode, choose_engine, leave_to_cpu
from videoloader.decoding.frame_cache import FrameCache
from videoloader.decoding.frame_threads import UnsureError, decode_in_threads, suits_threads
from videoloader.decoding.jpeg_engine import CODED, JpegDecoder, coded_file, engine_layout
from videoloader.decoding.nvdec import NvdecDecoder
from videoloader.decoding.nvdec_codecs import INEXACT_CODECS
from videoloader.decoding.sessions import set_decoder_memory

__all__ = [
    "CODED",
    "INEXACT_CODECS",
    "CpuDecoder",
    "Decode",
    "Engine",
    "FrameCache",
    "JpegDecoder",
    "NvdecDecoder",
    "UnsureError",
    "check_decode",
    "choose_engine",
    "coded_file",
    "decode_in_threads",
    "decode_run",
    "default_workers",
    "engine_layout",
    "leave_to_cpu",
    "lost_frame",
    "set_decoder_memory",
    "suits_threads",
    "why_not_nvdec",
]
