"""Decode packets to pictures on the CPU (libavcodec), with NVDEC, or with the GPU's JPEG engines."""

from videoloader.decoding.capabilities import default_workers as default_workers
from videoloader.decoding.capabilities import why_not_nvdec as why_not_nvdec
from videoloader.decoding.cpu import CpuDecoder as CpuDecoder
from videoloader.decoding.damage import decode_run as decode_run
from videoloader.decoding.damage import lost_frame as lost_frame
from videoloader.decoding.engine import Decode as Decode
from videoloader.decoding.engine import Engine as Engine
from videoloader.decoding.engine import check_decode as check_decode
from videoloader.decoding.engine import choose_engine as choose_engine
from videoloader.decoding.engine import leave_to_cpu as leave_to_cpu
from videoloader.decoding.frame_cache import FrameCache as FrameCache
from videoloader.decoding.frame_threads import UnsureError as UnsureError
from videoloader.decoding.frame_threads import decode_in_threads as decode_in_threads
from videoloader.decoding.frame_threads import suits_threads as suits_threads
from videoloader.decoding.jpeg_engine import CODED as CODED
from videoloader.decoding.jpeg_engine import JpegDecoder as JpegDecoder
from videoloader.decoding.jpeg_engine import coded_file as coded_file
from videoloader.decoding.jpeg_engine import engine_layout as engine_layout
from videoloader.decoding.nvdec import NvdecDecoder as NvdecDecoder
from videoloader.decoding.nvdec_codecs import INEXACT_CODECS as INEXACT_CODECS
from videoloader.decoding.sessions import set_decoder_memory as set_decoder_memory
