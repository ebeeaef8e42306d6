"""Decoding of JPEG files on the GPU through nvImageCodec, which has its JPEG engines and kernels do many at once."""

from __future__ import annotations

import atexit
import importlib.util
import threading
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Any

import torch

from videoloader.convert.surface import CudaSurface, SurfaceLayout
from videoloader.decoding.batched_calls import BatchedCalls
from videoloader.decoding.nvdec import Finish, Sink
from videoloader.device import own_stream
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.jpeg import has_usual_colors
from videoloader.indexing.index import VideoIndex
from videoloader.packets import PacketBytes

# An H200 gains little from larger batches.
_LARGEST_BATCH = 64
# log2 of the luma columns and rows that share a chroma sample.
_SUBSAMPLING = {"CSS_444": (0, 0), "CSS_422": (1, 0), "CSS_420": (1, 1)}


@cache
def is_jpeg_decoder_installed() -> bool:
    """Whether nvImageCodec is installed."""
    try:
        return importlib.util.find_spec("nvidia.nvimgcodec") is not None
    except ModuleNotFoundError:  # there is no "nvidia"
        return False


class JpegDecoder:
    """Decodes JPEG files on one GPU; all threads share it.

    Codes of samples differ from libavcodec's by 1 at most, as their inverse cosine transforms round differently: 2 to
    9 % of them, fewer where the quality is high. Chroma comes out as it is coded, to be brought to full resolution by
    the conversion that all other pictures go through. All work on pictures, their conversion too, must be put on one
    stream: nvImageCodec uses a picture's memory again, in the order of that stream, when the picture is dropped.

    Args:
        gpu: CUDA device number.

    Attributes:
        stream: for work on the pictures.
    """

    def __init__(self, gpu: int) -> None:
        from nvidia import nvimgcodec

        self._codec = nvimgcodec
        self._gpu = gpu
        self.stream = own_stream(torch.device("cuda", gpu), self)
        # Never on the CPU: libavcodec does what the GPU cannot. Exif's turns come with the conversion.
        kinds = nvimgcodec.BackendKind
        backends = [nvimgcodec.Backend(kind) for kind in (kinds.HW_GPU_ONLY, kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU)]
        with torch.cuda.device(gpu):
            self._decoder = nvimgcodec.Decoder(device_id=gpu, backends=backends)
        self._params = nvimgcodec.DecodeParams(
            apply_exif_orientation=False,
            color_spec=nvimgcodec.ColorSpec.UNCHANGED,
            sample_format=nvimgcodec.SampleFormat.P_UNCHANGED,
        )
        self._decode_together = BatchedCalls(self._decode, _LARGEST_BATCH)

    def decode(
        self, index: VideoIndex, packets: Iterable[PacketBytes], sink: Sink, finish: Finish = lambda: None
    ) -> int:
        """Decode image files; see ``NvdecDecoder.decode``.

        Raises:
            DecodeError: a file is damaged, or of a kind that is for libavcodec: not of 8 bits, neither Y'CbCr with
                4:4:4, 4:2:2 or 4:2:0 chroma nor gray, or not like its index says.
        """
        decoded, coming = 0, iter(packets)
        while some := list(islice(coming, _LARGEST_BATCH)):
            codes = [self._parse(index, packet) for packet in some]
            images = self._decode_together([code for code, _ in codes])
            for packet, (_, layout), image in zip(some, codes, images, strict=True):
                sink(packet.number, _surface(index, packet.number, image, layout), self.stream)
            del images, image  # their memory is the next pictures' once their conversion is on the stream
            finish()
            decoded += len(some)
        return decoded

    def _parse(self, index: VideoIndex, packet: PacketBytes) -> tuple[Any, SurfaceLayout]:
        data = bytes(packet.data)
        # nvImageCodec does not look at what libavcodec knows RGB by.
        if not has_usual_colors(data):
            reason = "JPEG of RGB, or of a rare kind, is not decoded on the GPU"
            raise DecodeError(reason, index.source, packet.number)
        try:
            code = self._codec.CodeStream(data)
            chroma, colors, depth = code.chroma_subsampling.name, code.color_spec.name, code.precision
            size = code.width, code.height
        except Exception as error:  # nvImageCodec's own kinds
            raise DecodeError(f"nvImageCodec cannot read its header: {error}", index.source, packet.number) from error
        width, height = index.stream.width, index.stream.height
        known = (colors == "SYCC" and chroma in _SUBSAMPLING) or (colors == "GRAY" and chroma == "CSS_GRAY")
        if not known or depth not in (0, 8) or size != (width, height):
            reason = f"JPEG of {colors} {chroma}, {depth} bit, {size[0]}×{size[1]} is not decoded on the GPU"
            raise DecodeError(reason, index.source, packet.number)
        if colors == "GRAY":
            return code, SurfaceLayout(width, height, 8, 1, 0, "gray", (0, 0), width, width, 1, 0, 0)
        # Planes of the picture's size, of which subsampled chroma fills the top left.
        plane = width * height
        layout = SurfaceLayout(
            width, height, 8, 1, 0, "ycbcr", _SUBSAMPLING[chroma], width, width, 1, plane, 2 * plane
        )  # fmt: skip
        return code, layout

    def _decode(self, codes: list[Any]) -> list[Any]:
        with torch.cuda.device(self._gpu):
            images: list[Any] = self._decoder.decode(codes, params=self._params, cuda_stream=self.stream.cuda_stream)
        return images


def _surface(index: VideoIndex, packet: int, image: Any, layout: SurfaceLayout) -> CudaSurface:
    if image is None:
        raise DecodeError("nvImageCodec does not decode it", index.source, packet)
    planes = 1 if layout.model == "gray" else 3
    memory = image.__cuda_array_interface__
    shape, strides = (planes, layout.height, layout.width), (layout.height * layout.width, layout.width, 1)
    # No strides: rows and planes follow one another.
    if memory["shape"] != shape or memory["typestr"] != "|u1" or (memory.get("strides") or strides) != strides:
        raise DecodeError(f"nvImageCodec gives out {memory['typestr']} {memory['shape']}", index.source, packet)
    return CudaSurface(memory["data"][0], layout, image)


_decoders: dict[int, JpegDecoder] = {}
_decoders_lock = threading.Lock()


def jpeg_decoder_of(gpu: int) -> JpegDecoder:
    """The decoder of a GPU; made on the first call."""
    with _decoders_lock:
        if gpu not in _decoders:
            _decoders[gpu] = JpegDecoder(gpu)
        return _decoders[gpu]


# Left to the interpreter they would end after the CUDA driver.
atexit.register(_decoders.clear)
