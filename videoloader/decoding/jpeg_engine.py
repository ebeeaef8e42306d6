"""Decoding of JPEG files by the GPU's JPEG engines (NVJPG), through nvImageCodec."""

from __future__ import annotations

import atexit
import importlib.util
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any
from weakref import WeakSet

import av
import torch

from videoloader.convert.surface import CudaSurface, SurfaceLayout
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.jpeg import read_jpeg_frame
from videoloader.indexing.stream_info import StreamInfo

# log2 of the luma columns and rows that share a chroma sample.
_SUBSAMPLING = {"444": (0, 0), "422": (1, 0), "420": (1, 1)}


@cache
def why_not_jpeg_engine(gpu: int) -> str:
    """The reason why this GPU's engines cannot decode JPEG files; empty if they can.

    Args:
        gpu: CUDA device number.
    """
    try:
        found = importlib.util.find_spec("nvidia.nvimgcodec")
    except ModuleNotFoundError:  # there is no "nvidia"
        found = None
    if found is None:
        return "nvImageCodec is not installed (the extras jpeg12 and jpeg13 bring it)"
    picture = _tiny_picture()
    with torch.cuda.device(gpu):
        stream = torch.cuda.current_stream()
        try:
            (planes,) = JpegDecoder(gpu).decode([picture], stream)
            why = "" if planes is not None else "it does not decode a picture"
        except DecodeError as error:
            why = error.message
    return f"the GPU has no JPEG engines that nvImageCodec can use: {why}" if why else ""


def _tiny_picture() -> bytes:
    encoder = av.VideoCodecContext.create("mjpeg", "w")
    encoder.width = encoder.height = 64
    encoder.pix_fmt = "yuvj420p"
    encoder.framerate = Fraction(1)
    (packet,) = [*encoder.encode(av.VideoFrame(64, 64, "yuvj420p")), *encoder.encode(None)]
    return bytes(packet)


def engine_layout(picture: bytes, stream: StreamInfo) -> SurfaceLayout | None:
    """The places of samples in the engines' output of a JPEG file; None if it is of a kind that is not for them.

    They get sequential files of 8 bits, in Y'CbCr with 4:4:4, 4:2:2 or 4:2:0 chroma. So the file alone tells who
    decodes it: engines round otherwise than libavcodec, and pictures must not depend on chance.

    Args:
        picture: the file.
        stream: facts of the index that it belongs to.
    """
    frame = read_jpeg_frame(picture)
    if frame is None or not frame.usual or (frame.width, frame.height) != (stream.width, stream.height):
        return None
    # Planes of the picture's size, of which subsampled chroma fills the top left.
    width, height, plane = frame.width, frame.height, frame.width * frame.height
    return SurfaceLayout(
        width, height, 8, 1, 0, "ycbcr", _SUBSAMPLING[frame.chroma], width, width, 1, plane, 2 * plane
    )  # fmt: skip


class JpegDecoder:
    """Decodes JPEG files on one GPU, for one thread; takes some 30 MB of its memory.

    Damage inside a file is not told, as libavcodec tells it, unless the engines refuse the file. A file comes out the
    same whatever else is decoded before or beside it. Codes of samples differ from libavcodec's by 1 at most, as their
    inverse cosine transforms round differently (0.1 to 8 % of the samples).

    Args:
        gpu: CUDA device number.
    """

    def __init__(self, gpu: int) -> None:
        from nvidia import nvimgcodec

        self._codec = nvimgcodec
        # The engines and nothing else: its CUDA kernels round otherwise again.
        with torch.cuda.device(gpu):
            self._decoder = nvimgcodec.Decoder(
                device_id=gpu, backends=[nvimgcodec.Backend(nvimgcodec.BackendKind.HW_GPU_ONLY)]
            )
        self._params = nvimgcodec.DecodeParams(
            apply_exif_orientation=False,  # conversion does that
            color_spec=nvimgcodec.ColorSpec.UNCHANGED,
            sample_format=nvimgcodec.SampleFormat.P_UNCHANGED,
        )
        _decoders.add(self)

    def decode(self, pictures: Sequence[bytes], stream: torch.cuda.Stream) -> list[Any]:
        """Decode files: planes uint8[3, H, W] of each, with ``__cuda_array_interface__``; None of one that it refuses.

        Many at once come several times as fast as one by one. nvImageCodec uses the planes' memory again, in the order
        of ``stream``, when they are dropped.

        Args:
            pictures: the files.
            stream: CUDA stream of the current device, on which the planes will be ready.

        Raises:
            DecodeError: nvImageCodec does not decode any of them.
        """
        try:
            codes = [self._codec.CodeStream(picture) for picture in pictures]
            return list(self._decoder.decode(codes, params=self._params, cuda_stream=stream.cuda_stream))
        except Exception as error:  # nvImageCodec's own kinds
            raise DecodeError(f"nvImageCodec: {error}") from error

    def surfaces(
        self, pictures: Sequence[tuple[bytes, SurfaceLayout]], stream: torch.cuda.Stream
    ) -> list[CudaSurface | DecodeError]:
        """Decode files to surfaces that are valid for work put on the stream before the surfaces are dropped.

        Args:
            pictures: the files, each with its layout by ``engine_layout``.
            stream: as in ``decode``.

        Returns:
            Of each file its surface; or an error where nvImageCodec refuses it, or gives out something else than the
            layout says.
        """
        try:
            decoded = self.decode([picture for picture, _ in pictures], stream)
        except DecodeError as error:
            if len(pictures) == 1:
                return [error]
            return [each for picture in pictures for each in self.surfaces([picture], stream)]
        return [_surface(planes, layout) for planes, (_, layout) in zip(decoded, pictures, strict=True)]


def _surface(planes: Any, layout: SurfaceLayout) -> CudaSurface | DecodeError:
    if planes is None:
        return DecodeError("nvImageCodec does not decode it on the JPEG engines")
    memory = planes.__cuda_array_interface__
    width, height = layout.width, layout.height
    shape, strides = (3, height, width), (height * width, width, 1)
    # No strides: rows and planes follow one another.
    if memory["shape"] != shape or memory["typestr"] != "|u1" or (memory.get("strides") or strides) != strides:
        return DecodeError(f"nvImageCodec gives out {memory['typestr']} {memory['shape']}, not uint8 {shape}")
    return CudaSurface(memory["data"][0], layout, planes)


_decoders: WeakSet[JpegDecoder] = WeakSet()


@atexit.register
def _close_all() -> None:
    # Left to the interpreter they would be closed after the CUDA driver.
    for decoder in _decoders:
        decoder._decoder = None
