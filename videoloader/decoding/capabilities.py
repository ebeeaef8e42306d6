"""Find out what a GPU's NVDEC can decode, and how many hardware engines it has."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from videoloader.decoding.annexb import sequence_parameter_sets
from videoloader.decoding.nvcuvid import Capabilities, ask_capabilities
from videoloader.decoding.nvdec_codecs import NVDEC_CODECS
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.parameter_sets import WITH_PARAMETER_SETS
from videoloader.indexing.bitstream.picture import parameter_set_format, picture_format
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.stream_info import StreamInfo
from videoloader.runtime.cores import available_cores


def pynvvideocodec() -> Any:
    """Import the module on first use, because importing it needs a driver."""
    import PyNvVideoCodec

    return PyNvVideoCodec


@cache
def capabilities(gpu: int, codec: str, chroma: str, bit_depth: int) -> Capabilities:
    """Return the capabilities of a GPU's NVDEC for one kind of stream.

    Args:
        gpu: CUDA device number.
        codec: one of ``NVDEC_CODECS``.
        chroma: ``"420"`` or ``"444"``.
        bit_depth: bits of a sample.
    """
    nvc = pynvvideocodec()
    codec_number = int(getattr(nvc.cudaVideoCodec, NVDEC_CODECS[codec].name))
    # cudaVideoChromaFormat uses the same names "420" and "444" as here.
    return ask_capabilities(gpu, codec_number, int(getattr(nvc.cudaVideoChromaFormat, chroma)), bit_depth)


def default_workers(gpu: int) -> int:
    """Return the number of threads that keep a GPU's NVDEC busy: five for every two of its hardware engines.

    While one thread of an engine decodes, another runs Python code. With two threads for each engine, engines sometimes
    wait for a thread between two clips: decoding every frame of 360p videos reached 18.4 to 19.5 thousand frames a
    second with 14 threads, 20.0 to 20.4 with 18, and 20.0 to 20.1 with 21 (H200).

    Args:
        gpu: CUDA device number.

    Returns:
        18 on an H200, which has seven engines; the number of available cores if the GPU has no engines.
    """
    engines = capabilities(gpu, "h264", "420", 8).num_engines
    return -(-5 * engines // 2) or available_cores()


@lru_cache(4096)
def section_format(stream: StreamInfo, config: int) -> PictureFormat | None:
    """Return the picture format by one of a stream's configuration records; None if it is unknown."""
    return picture_format(replace(stream, codec_configs=(stream.codec_configs[config],)))


def setup_of(picture: PictureFormat) -> tuple[object, ...]:
    """Return the parts of a picture format that a session must be set up for. Colours do not matter to it."""
    return (
        picture.width, picture.height, picture.coded_size, picture.cut_off, picture.chroma, picture.bit_depth,
        picture.buffering, picture.frames_only,
    )  # fmt: skip


def blocks_of(picture: PictureFormat) -> tuple[int, int]:
    """Return the (columns, rows) of 16×16 blocks. Coded sizes with the same blocks count as equal, which is safe."""
    return (picture.width + 15) // 16, (picture.height + 15) // 16


def why_not_nvdec(index: VideoIndex, gpu: int) -> str:
    """Return the reason why this GPU's NVDEC cannot decode a video; empty if it can.

    Args:
        index: index of the video.
        gpu: CUDA device number.
    """
    stream = index.stream
    if stream.encrypted:
        return "it is encrypted"
    if stream.container_size != (0, 0):
        return "its container crops the coded pictures"
    if stream.size_varies:
        return "its pictures change their size"
    if index.method == "decoded" and (stream.codec == "mpeg4" or not index.packet_has_frame.all()):
        return "its packets are not one frame each"
    if (facts := NVDEC_CODECS.get(stream.codec)) is None:
        return f"NVDEC does not know {stream.codec}" if stream.codec != "vc1" else "NVDEC is not used for VC-1"
    if not facts.cuts_odd_sizes and (stream.width % 2 or stream.height % 2):
        return f"NVDEC cuts pictures of odd size wrongly for {stream.codec}"
    return _why_not_stream(stream, gpu)


@lru_cache(4096)
def _why_not_stream(stream: StreamInfo, gpu: int) -> str:
    for config in range(len(stream.codec_configs)):
        picture = section_format(stream, config)
        if picture is None:
            return f"NVDEC does not support {stream.codec} with unknown chroma"
        if (picture.width, picture.height) != (stream.width, stream.height):
            return "its pictures are not of the size of its stream"
        if stream.codec in WITH_PARAMETER_SETS:
            formats = {
                parameter_set_format(stream.codec, each)
                for each in sequence_parameter_sets(stream.codec, stream.codec_configs[config])
            }
            if len({setup_of(each) if each else None for each in formats}) > 1:
                return "its sequence parameter sets contradict each other"
        if reason := why_not_picture(stream.codec, picture, gpu):
            return reason
    layer = find_layer(stream.codec_configs[0]) if NVDEC_CODECS[stream.codec].blends_fields else None
    return "NVDEC blends the fields of interlaced MPEG-4" if layer and layer.interlaced else ""


def why_not_picture(codec: str, picture: PictureFormat, gpu: int) -> str:
    """Return why this GPU's NVDEC cannot decode pictures of a format, or not correctly; empty if it can."""
    if picture.chroma not in ("420", "444") or not picture.bit_depth:
        return f"NVDEC does not support {codec} with {picture.chroma} chroma"
    caps = capabilities(gpu, codec, picture.chroma, picture.bit_depth)
    if not caps.supported:
        return f"this GPU's NVDEC does not decode {codec} {picture.chroma} {picture.bit_depth} bit"
    small = picture.width < caps.min_width or picture.height < caps.min_height
    large = picture.width > caps.max_width or picture.height > caps.max_height
    columns, rows = blocks_of(picture)
    if small or large or columns * rows > caps.max_blocks:
        return f"{picture.width}×{picture.height} is outside what this GPU's NVDEC takes for {codec}"
    if any(picture.cut_off):
        return "PyNvVideoCodec cuts pictures wrongly that begin right of or below the coded ones"
    facts = NVDEC_CODECS[codec]
    if facts.may_interlace(picture) and not facts.can_begin_whole(picture):
        return "PyNvVideoCodec blends the fields of its interlaced pictures"
    return ""
