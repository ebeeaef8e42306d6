"""NVDEC's ceiling: bare sessions fed from memory, their frames left where they lie."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import av
import PyNvVideoCodec as nvc
import torch

from libraries.common import rate_of_threads
from libraries.place import Place, epoch_together

# Small pictures decode so fast that a call for each would not keep NVDEC busy.
PACKETS_A_CALL = 8
_CODECS = {"h264": nvc.cudaVideoCodec.H264, "hevc": nvc.cudaVideoCodec.HEVC}


def every_frame(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Frames a second of sessions that decode the first file again and again."""

    def make(_: int) -> Callable[[], int]:
        decode, packets = session(files[0])
        return lambda: sum(map(decode, packets))

    return {"frames/s": rate_of_threads(make, threads, seconds, warmup)}


def whole_videos(
    files: list[str], seconds: float, warmup: float, place: Mapping[str, Any], threads: int, endless: bool
) -> dict[str, float]:
    """Seconds of all frames of this process's part of the files, which are links to one.

    Args:
        files: the videos.
        seconds, warmup: of counting if ``endless``, and before that.
        place: of this process.
        threads: with a session each.
        endless: whether sessions go on when the part has been decoded; the seconds are then those at their rate.
            Otherwise some sessions end before the last one.
    """
    here = Place(**place)
    here.device  # noqa: B018 (makes it the current one)
    sessions = [session(files[0]) for _ in range(threads)]
    part = len(files[here.rank :: here.ranks])

    def decode_part(videos: int) -> int:
        left = iter(range(videos))

        def work(number: int) -> int:
            decode, packets = sessions[number]
            return sum(sum(map(decode, packets)) for _ in left)

        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(work, range(threads)))

    if not endless:
        return epoch_together(lambda _: decode_part(2 * threads), lambda: decode_part(part), warmup, here)

    def make(number: int) -> Callable[[], int]:
        decode, packets = sessions[number]
        return lambda: sum(map(decode, packets))

    frames = part * decode_part(1)
    here.meet("ready")
    return {"s": frames / rate_of_threads(make, threads, seconds, warmup), "frames": frames, "cores each": here.cores}


def session(path: str) -> tuple[Callable[[nvc.PacketData], int], list[nvc.PacketData]]:
    """(decode a call's packets to so many frames, all calls of the file, which can be repeated)."""
    codec, width, height, payloads = _payloads(path)
    stream = torch.cuda.Stream()
    decoder = nvc.CreateDecoder(
        gpuid=stream.device.index,
        codec=_CODECS[codec],
        cudacontext=0,
        cudastream=stream.cuda_stream,
        usedevicememory=True,
        maxwidth=width,
        maxheight=height,
    )
    packets = []
    for payload in [*payloads, b""]:  # an empty one flushes
        packet = nvc.PacketData()
        packet.bsl_data = ctypes.cast(ctypes.c_char_p(payload), ctypes.c_void_p).value
        packet.bsl = len(payload)
        packets.append(packet)

    def decode(packet: nvc.PacketData, *, memory: object = (stream, payloads)) -> int:
        # The default keeps alive what the decoder and the packets point at.
        return len(decoder.Decode(packet))

    return decode, packets


def _payloads(path: str) -> tuple[str, int, int, list[bytes]]:
    """(codec, width, height, bytes for each call), with start codes and parameter sets."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        codec = stream.codec_context.name
        width, height = stream.codec_context.width, stream.codec_context.height
        to_annex_b = av.BitStreamFilterContext(f"{codec}_mp4toannexb", stream)
        filtered = [
            bytes(out) for packet in container.demux(stream) if packet.size for out in to_annex_b.filter(packet)
        ]
    packets = iter(filtered)
    return codec, width, height, [b"".join(group) for group in iter(lambda: list(islice(packets, PACKETS_A_CALL)), [])]
