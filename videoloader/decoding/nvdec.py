"""Decoding on NVDEC through PyNvVideoCodec's low-level decoder, in sessions that stay open from video to video."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

from videoloader.convert.surface import CudaSurface, NvdecFormat, nvdec_surface
from videoloader.decoding.annexb import annex_b_headers, to_annex_b
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.bitstream.picture import PictureFormat, picture_format
from videoloader.indexing.index import VideoIndex
from videoloader.packets import PacketBytes

# Names in PyNvVideoCodec's cudaVideoCodec; its cudaVideoChromaFormat has "420" and "444" as here.
_CODECS = {
    "h264": "H264", "hevc": "HEVC", "vp8": "VP8", "vp9": "VP9", "av1": "AV1",
    "mpeg1video": "MPEG1", "mpeg2video": "MPEG2", "mpeg4": "MPEG4", "vc1": "VC1",
}  # fmt: skip
# A session is made for the largest picture of its class, so that it can take any smaller one. Each of
# width and height is rounded up to one of these.
_SIZE_CLASSES = (384, 640, 1088, 1920, 2560, 4096, 8192)
_OPEN_SESSIONS = 4
# A call lets go of Python's lock and must queue for it again behind the other decoding threads. Small pictures
# decode so fast that one call for each would leave NVDEC idle; its parser takes several as well.
_PACKETS_A_CALL = 8
_NEED_EVEN_SIZE = ("mpeg1video", "mpeg2video", "mpeg4")
_NEVER_REORDERED = ("vp8", "vp9", "av1")

Sink = Callable[[int, CudaSurface], None]


class _SessionKey(NamedTuple):
    """What a session cannot change: NVDEC refuses to reconfigure any of it."""

    codec: str
    chroma: str
    bit_depth: int
    max_width: int
    max_height: int


class _Session:
    """A PyNvVideoCodec decoder and the video it was last set up for."""

    def __init__(self, key: _SessionKey, gpu: int, cuda_stream: int) -> None:
        nvc = _pynvvideocodec()
        self._packet = nvc.PacketData
        self.key = key
        self.picture: PictureFormat | None = None
        self._buffering: tuple[int, ...] = ()
        self.decoder = nvc.CreateDecoder(
            gpuid=gpu,
            codec=getattr(nvc.cudaVideoCodec, _CODECS[key.codec]),
            cudacontext=0,
            cudastream=cuda_stream,
            usedevicememory=True,
            maxwidth=key.max_width,
            maxheight=key.max_height,
        )

    def fits(self, picture: PictureFormat) -> bool:
        """Whether the session gives right pictures of a video.

        It sets itself up anew only for another coded size. A video of the same coded size that is cut
        differently, or lets the decoder hold more pictures than the session has room for, comes out wrong,
        without an error.
        """
        if self.picture is None or _coded_size(self.picture) != _coded_size(picture):
            return True
        same_cut = (self.picture.width, self.picture.height) == (picture.width, picture.height)
        return same_cut and all(new <= had for new, had in zip(picture.buffering, self._buffering, strict=True))

    def show(self, picture: PictureFormat) -> None:
        """Make ready for a video that fits."""
        last, self.picture = self.picture, picture
        if last is None or _coded_size(last) != _coded_size(picture):
            self._buffering = picture.buffering
            if last is not None:
                # Without this the session goes on cutting pictures to the shape of its last video.
                self.decoder.setReconfigParams(picture.width, picture.height)

    def feed(self, payload: bytes) -> list[Any]:
        """Decode one or several packets, flush with none. The surfaces live until the next call."""
        packet = self._packet()
        packet.bsl_data = ctypes.cast(ctypes.c_char_p(payload), ctypes.c_void_p).value
        packet.bsl = len(payload)
        surfaces: list[Any] = self.decoder.Decode(packet)
        return surfaces


def _coded_size(picture: PictureFormat) -> tuple[int, int]:
    """In blocks of 16; coded sizes that differ by less pass for the same, which is the safe side."""
    return (picture.width + 15) // 16, (picture.height + 15) // 16


def _pynvvideocodec() -> Any:
    # Imported here because importing it needs a driver.
    import PyNvVideoCodec

    return PyNvVideoCodec


@cache
def _capabilities(gpu: int, codec: str, chroma: str, bit_depth: int) -> dict[str, int]:
    nvc = _pynvvideocodec()
    return dict(
        nvc.GetDecoderCaps(
            gpuid=gpu,
            codec=getattr(nvc.cudaVideoCodec, _CODECS[codec]),
            chromaformat=getattr(nvc.cudaVideoChromaFormat, chroma),
            bitdepth=bit_depth,
        )
    )


def why_not_nvdec(index: VideoIndex, gpu: int) -> str:
    """Why this GPU's NVDEC cannot decode a video; empty if it can.

    Args:
        index: of the video.
        gpu: CUDA device number.
    """
    stream = index.stream
    if stream.encrypted:
        return "it is encrypted"
    if stream.size_varies:
        return "its pictures change their size"
    if index.method == "decoded" and (stream.codec == "mpeg4" or not index.packet_has_frame.all()):
        return "its packets are not one frame each"
    if stream.codec in _NEED_EVEN_SIZE and (stream.width % 2 or stream.height % 2):
        return f"NVDEC cuts pictures of odd size wrongly for {stream.codec}"
    if stream.codec not in _CODECS:
        return f"NVDEC does not know {stream.codec}"
    picture = picture_format(stream)
    if picture is None or picture.chroma not in ("420", "444") or not picture.bit_depth:
        return f"{stream.codec} with {picture.chroma if picture else 'unknown'} chroma is not for NVDEC"
    caps = _capabilities(gpu, stream.codec, picture.chroma, picture.bit_depth)
    if not caps["supported"]:
        return f"this GPU's NVDEC does not decode {stream.codec} {picture.chroma} {picture.bit_depth} bit"
    small = picture.width < caps["width_min"] or picture.height < caps["height_min"]
    large = picture.width > caps["width_max"] or picture.height > caps["height_max"]
    blocks = (picture.width + 15) // 16 * ((picture.height + 15) // 16)
    if small or large or blocks > caps["mb_num_max"]:
        return f"{picture.width}×{picture.height} is outside what this GPU's NVDEC takes for {stream.codec}"
    return ""


def _size_class(pixels: int) -> int:
    return next(size for size in _SIZE_CLASSES if pixels <= size)


class NvdecDecoder:
    """A decoder for one thread. Its NVDEC sessions stay open from clip to clip and from video to video.

    Args:
        gpu: CUDA device number.
        cuda_stream: handle of the CUDA stream that the sessions put their frames on. Whatever reads a
            surface must run on the same stream: the next packet reuses the surface's memory.
    """

    def __init__(self, *, gpu: int, cuda_stream: int) -> None:
        self._gpu = gpu
        self._cuda_stream = cuda_stream
        self._sessions: list[_Session] = []  # the one used last is the last

    def decode(self, index: VideoIndex, packets: Iterable[PacketBytes], sink: Sink) -> int:
        """Decode one run, from a keyframe on. See ``CpuDecoder.decode``; surfaces are valid inside ``sink`` only.

        Raises:
            DecodeError: NVDEC refuses the stream, gives out pictures of another size than the stream's, or
                not one for each packet. Frames given to the sink before that may be wrong.
        """
        picture = picture_format(index.stream)
        assert picture is not None, "why_not_nvdec says which streams may come here"
        codec = index.stream.codec
        key = _SessionKey(
            codec, picture.chroma, picture.bit_depth, _size_class(picture.width), _size_class(picture.height)
        )
        session = self._take_session(key, picture)
        order = _DecodeOrder(index) if codec in _NEVER_REORDERED else _DisplayOrder(index)
        expected: set[int] = set()
        fed = 0

        def give(surfaces: list[Any]) -> None:
            for surface in surfaces:
                number = order.next_shown()
                if number in expected:
                    expected.remove(number)
                    sink(number, _describe(surface, picture))

        try:
            packets = iter(packets)
            while group := list(islice(packets, 1 if codec in _NEVER_REORDERED else _PACKETS_A_CALL)):
                record = index.stream.codec_configs[index.packet_config[group[0].number]]
                length_size = nal_length_size(codec, record)
                payload = b"".join([to_annex_b(packet.data, length_size) for packet in group])
                for packet in group:
                    order.feed(packet.number)
                    if packet.wanted:
                        expected.add(packet.number)
                give(session.feed(payload if fed else annex_b_headers(codec, record) + payload))
                fed += len(group)
            give(session.feed(b""))
        except DecodeError as error:
            raise DecodeError(str(error), index.source) from None
        except _pynvvideocodec().PyNvVCException as error:
            raise DecodeError(f"NVDEC refuses it: {str(error).strip().splitlines()[0]}", index.source) from error
        if order.outstanding:
            raise DecodeError(f"NVDEC gave {order.outstanding} pictures less than it should", index.source)
        self._sessions.append(session)
        del self._sessions[:-_OPEN_SESSIONS]
        return fed

    def _take_session(self, key: _SessionKey, picture: PictureFormat) -> _Session:
        """A session set up for the picture; out of the list while it is in use, since one that fails is done with."""
        fitting = [session for session in self._sessions if session.key == key and session.fits(picture)]
        session = next((session for session in fitting if session.picture == picture), fitting[0] if fitting else None)
        if session is None:
            session = _Session(key, self._gpu, self._cuda_stream)
        else:
            self._sessions.remove(session)
        session.show(picture)
        return session


class _DisplayOrder:
    """Ties pictures to packets for codecs that reorder: pictures come out in display order.

    So each picture is of the earliest-shown packet that was fed and has not come out, as long as each packet
    becomes a picture. (NVDEC's own timestamps say no more: its parser hands them out in rising order.)
    """

    def __init__(self, index: VideoIndex) -> None:
        self._rank, self._packets = index.packet_rank, index.packets_in_display_order
        self._fed: list[int] = []

    @property
    def outstanding(self) -> int:
        return len(self._fed)

    def feed(self, number: int) -> None:
        heappush(self._fed, int(self._rank[number]))

    def next_shown(self) -> int:
        if not self._fed:
            raise DecodeError("NVDEC gave more pictures than packets")
        return int(self._packets[heappop(self._fed)])


class _DecodeOrder:
    """Ties pictures to packets first in, first out, for codecs that never reorder; there a packet may show nothing."""

    def __init__(self, index: VideoIndex) -> None:
        self._shown = index.packet_has_frame
        self._fed: deque[int] = deque()

    @property
    def outstanding(self) -> int:
        return len(self._fed)

    def feed(self, number: int) -> None:
        if self._shown[number]:
            self._fed.append(number)

    def next_shown(self) -> int:
        if not self._fed:
            raise DecodeError("NVDEC gave more pictures than packets show")
        return self._fed.popleft()


def _describe(surface: Any, picture: PictureFormat) -> CudaSurface:
    """Where the planes of a surface are: contiguous; rows of subsampled formats are as long as an even width."""
    wide = picture.bit_depth > 8
    planar = picture.chroma == "444"
    pitch = (picture.width if planar else (picture.width + 1) // 2 * 2) * (2 if wide else 1)
    # The size that PyNvVideoCodec tells leaves out the last chroma row of an odd height; the row is there.
    size = pitch * picture.height * 3 if planar else pitch * picture.height * 3 // 2
    if surface.framesize() != size:
        raise DecodeError(
            f"NVDEC gave a picture of {surface.framesize()} bytes where {picture.width}×{picture.height} "
            f"{picture.chroma} {picture.bit_depth} bit has {size}"
        )
    layout: NvdecFormat = ("yuv444_16" if wide else "yuv444") if planar else ("p016" if wide else "nv12")
    return nvdec_surface(
        surface.GetPtrToPlane(0), picture.width, picture.height, pitch, layout, picture.bit_depth, surface
    )
