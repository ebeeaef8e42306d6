"""Decode JPEG files with the GPU's JPEG engines (NVJPG), through NVIDIA's nvJPEG library."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.surface import CudaSurface, SurfaceLayout, pixel_format, planes_layout
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.jpeg import read_jpeg_frame
from videoloader.indexing.stream_info import StreamInfo
from videoloader.runtime.device import event_to_sleep_for

# Values from nvjpeg.h. The CUDA kernels of nvJPEG round differently from the engines, so they are not used.
_BACKEND_HARDWARE = 3
_OUTPUT_UNCHANGED = 0
_STATUS = (
    "", "not initialized", "invalid parameter", "bad JPEG", "JPEG not supported", "no memory", "execution failed",
    "architecture mismatch", "internal error", "no JPEG engines", "incomplete JPEG",
)  # fmt: skip
# Description of a JPEG file for ``JpegDecoder``: its size, the size of its planes, and where in them samples lie.
CODED = np.dtype([(name, np.int64) for name in ("size", "nbytes", "cb", "cr", "pitch", "chroma_pitch")])
# ``nvjpegImage_t``: device addresses and pitches of the planes.
_IMAGE = np.dtype([("channel", np.uint64, 4), ("pitch", np.uint64, 4)])


@cache
def why_not_jpeg_engine(gpu: int) -> str:
    """Return the reason why this GPU's engines cannot decode JPEG files; empty if they can.

    Args:
        gpu: CUDA device number.
    """
    if _library() is None:
        return "nvJPEG is not installed (the extras jpeg12 and jpeg13 bring it)"
    picture = _tiny_picture()
    layout = _planes_layout(64, 64, "420")
    with torch.cuda.device(gpu):
        stream = torch.cuda.current_stream()
        try:
            JpegDecoder(gpu).surface(picture, layout, stream)
            why = ""
        except DecodeError as error:
            why = error.message
    return f"the GPU has no JPEG engines that nvJPEG can use: {why}" if why else ""


@cache
def _library() -> ctypes.CDLL | None:
    """Load the nvJPEG library for the CUDA version that PyTorch was built for; None if there is none."""
    major = (torch.version.cuda or "").partition(".")[0]
    name = f"libnvjpeg.so.{major}"
    try:
        found = importlib.util.find_spec("nvidia")
    except ValueError:  # a module of that name without a spec
        found = None
    # Wheels for CUDA 12 have a folder for each library, those for CUDA 13 one folder for all.
    folders = [Path(each) for each in found.submodule_search_locations or ()] if found is not None else []
    installed = [str(path) for folder in folders for path in sorted(folder.glob(f"*/lib/{name}"))]
    for path in [*installed, name]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def _tiny_picture() -> bytes:
    encoder = av.VideoCodecContext.create("mjpeg", "w")
    encoder.width = encoder.height = 64
    encoder.pix_fmt = "yuvj420p"
    encoder.framerate = Fraction(1)
    (packet,) = [*encoder.encode(av.VideoFrame(64, 64, "yuvj420p")), *encoder.encode(None)]
    return bytes(packet)


def engine_layout(picture: bytes, stream: StreamInfo) -> SurfaceLayout | None:
    """Return where the engines put the samples of a JPEG file; None if they should not decode it.

    They decode sequential files of 8 bits, in Y'CbCr with 4:4:4, 4:2:2 or 4:2:0 chroma. The file alone decides, because
    the engines round differently from libavcodec, and pictures must not depend on chance.

    Args:
        picture: the file.
        stream: stream facts of the file's index.
    """
    frame = read_jpeg_frame(picture)
    if frame is None or not frame.usual or (frame.width, frame.height) != (stream.width, stream.height):
        return None
    return _planes_layout(frame.width, frame.height, frame.chroma)


@lru_cache(maxsize=256)
def _planes_layout(width: int, height: int, chroma: str) -> SurfaceLayout:
    """Lay out the three planes of a picture one after the other, without gaps."""
    pixels = pixel_format(f"yuv{chroma}p")
    assert pixels is not None, "the engines take 4:4:4, 4:2:2 and 4:2:0"
    return planes_layout(pixels, width, height)[0]


def coded_file(size: int, layout: SurfaceLayout) -> npt.NDArray[np.void]:
    """Return a ``CODED`` without dimensions, for a file of this size and its layout by ``engine_layout``."""
    return np.array((size, layout.nbytes, layout.cb, layout.cr, layout.pitch, layout.chroma_pitch), CODED)


class JpegDecoder:
    """Decodes JPEG files on one GPU, for one thread. It takes about 30 MB of the GPU's memory.

    Unlike libavcodec, it does not report damage inside a file unless the engines refuse the file. A file comes out the
    same whatever else is decoded before or beside it. Sample values differ from libavcodec's by at most 1, since the
    inverse cosine transforms round differently (in 0.1 to 8 % of the samples).

    Args:
        gpu: CUDA device number.

    Raises:
        DecodeError: nvJPEG cannot use the GPU's engines.
    """

    def __init__(self, gpu: int) -> None:
        library = _library()
        assert library is not None, "why_not_jpeg_engine() says whether there is one"
        self._library = library
        self._handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        # nvJPEG's calls return before the GPU has read their input, so it is kept alive until this event.
        self._busy: tuple[torch.cuda.Event, object] | None = None
        with torch.cuda.device(gpu):
            torch.cuda.current_stream().synchronize()  # creates the device's context, which nvJPEG needs
            create = library.nvjpegCreateEx
            _check(create(_BACKEND_HARDWARE, None, None, 0, ctypes.byref(self._handle)))
            _check(library.nvjpegJpegStateCreate(self._handle, ctypes.byref(self._state)))
        # Freed before interpreter shutdown: the CUDA driver ends before module objects are freed.
        weakref.finalize(self, _destroy, library, self._handle, self._state, os.getpid())

    def surface(self, picture: bytes, layout: SurfaceLayout, stream: torch.cuda.Stream) -> CudaSurface:
        """Decode one file.

        Args:
            picture: the file.
            layout: layout of its samples, by ``engine_layout``.
            stream: as in ``decode``.

        Raises:
            DecodeError: nvJPEG refuses the file.
        """
        address = np.array([np.frombuffer(picture, np.uint8).ctypes.data])
        planes, starts, (error,) = self.decode(address, coded_file(len(picture), layout)[None], picture, stream)
        if error is not None:
            raise error
        return CudaSurface(int(starts[0]), layout, planes)

    def decode(
        self, addresses: npt.NDArray[np.int64], files: npt.NDArray[np.void], owner: object, stream: torch.cuda.Stream
    ) -> tuple[torch.Tensor, npt.NDArray[np.int64], list[DecodeError | None]]:
        """Decode files to planes, valid for any work put on the stream before the planes are dropped.

        Many files at once decode several times as fast as one by one. The GIL is released meanwhile.

        Args:
            addresses: addresses of the files' bytes.
            files: ``CODED`` of each.
            owner: object that keeps the bytes alive and unchanged until the GPU has read them.
            stream: CUDA stream of the current device, on which the planes will be ready.

        Returns:
            The memory of all planes, the address of each file's planes, and for each file None or the error if nvJPEG
            refuses it.
        """
        sizes = files["nbytes"]
        with torch.cuda.stream(stream):
            planes = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=stream.device)
        starts = planes.data_ptr() + np.cumsum(sizes) - sizes
        errors: list[DecodeError | None] = [None] * len(files)
        # A refused file keeps the others from being decoded, so they are then decoded one by one.
        if self._decode(addresses, files, starts, owner, stream):
            for at in range(len(files)):
                one = slice(at, at + 1)
                if status := self._decode(addresses[one], files[one], starts[one], owner, stream):
                    errors[at] = DecodeError(f"nvJPEG refuses the file: {_reason(status)}")
        return planes, starts, errors

    def _decode(
        self,
        addresses: npt.NDArray[np.int64],
        files: npt.NDArray[np.void],
        starts: npt.NDArray[np.int64],
        owner: object,
        stream: torch.cuda.Stream,
    ) -> int:
        """Decode files to planes that start at these addresses, and return nvJPEG's status."""
        images = np.zeros(len(files), _IMAGE)
        for plane, (after, pitch) in enumerate((("", "pitch"), ("cb", "chroma_pitch"), ("cr", "chroma_pitch"))):
            images["channel"][:, plane] = starts + files[after] if after else starts
            images["pitch"][:, plane] = files[pitch]
        library, data = self._library, addresses.astype(np.uint64)
        lengths = files["size"].astype(np.uint64)
        if self._busy is not None:
            self._busy[0].synchronize()
        status: int = library.nvjpegDecodeBatchedInitialize(self._handle, self._state, len(files), 1, _OUTPUT_UNCHANGED)
        if not status:
            arrays = [ctypes.c_void_p(each.ctypes.data) for each in (data, lengths, images)]
            on = ctypes.c_void_p(stream.cuda_stream)
            status = library.nvjpegDecodeBatched(self._handle, self._state, *arrays, on)
        self._busy = event_to_sleep_for(stream), (data, lengths, images, owner)
        return status


def _check(status: int) -> None:
    if status:
        raise DecodeError(f"nvJPEG: {_reason(status)}")


def _reason(status: int) -> str:
    return _STATUS[status] if 0 < status < len(_STATUS) else f"status {status}"


def _destroy(library: ctypes.CDLL, handle: ctypes.c_void_p, state: ctypes.c_void_p, owner: int) -> None:
    if os.getpid() != owner:
        return  # CUDA does not work in a forked process
    library.nvjpegJpegStateDestroy(state)
    library.nvjpegDestroy(handle)
