"""The decoding engines behind one protocol: the CPU, NVDEC and the GPU's JPEG engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Protocol

import numpy as np
import torch

from videoloader.convert.surface import CudaSurface
from videoloader.convert.upload import copy_surface
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.decoding.engine import Engine
from videoloader.decoding.frame_threads import decode_in_threads, suits_threads
from videoloader.decoding.jpeg_engine import JpegDecoder, engine_layout
from videoloader.decoding.nvdec import NvdecDecoder
from videoloader.indexing import VideoIndex
from videoloader.packets.decode_plan import PacketBytes, Run, with_all_frames
from videoloader.packets.read_packets import read_packets
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.conversion_threads import convert_in_threads
from videoloader.reading.read_progress import ReadProgress

# Packets and bytes of a run that are examined together before the first of them is decoded on the CPU.
_MOST_PACKETS_READY, _MOST_BYTES_READY = 32, 4 << 20


class DecodingEngine(Protocol):
    """Turns planned runs of packets into pictures in their slots.

    An engine belongs to one thread. Its decoders stay open from run to run, until the engine is dropped or the process
    ends. ``choose_engine`` says which engine takes a video.

    Attributes:
        falls_back: whether the CPU makes all of a read again if this engine raises DecodeError, unless the user asked
            for one engine alone.
    """

    falls_back: bool = True

    def begin(self, progress: ReadProgress) -> None:
        """Deliver what is available without decoding, before the first run of a read. Most engines do nothing here."""
        return

    def decode(self, progress: ReadProgress, run: Run) -> int:
        """Read and decode one run, and put its wanted pictures into the sink.

        Returns:
            The number of packets decoded.

        Raises:
            WrongIndexError: packets contradict the index; the run must be planned again.
            NeedsOneThreadError: frames may differ from what one thread decodes.
            DecodeError: a wanted frame does not come out. Nothing that a GPU gave for this read can be trusted.
            ReadCancelled: the read was cancelled.
        """


class CpuEngine(DecodingEngine):
    """Decodes with libavcodec, in the calling thread, or in several threads if the read may use them."""

    falls_back = False

    def __init__(self, device: torch.device) -> None:
        self._device, self._decoder = device, CpuDecoder()

    def decode(self, progress: ReadProgress, run: Run) -> int:
        read, watch = partial(read_packets, progress.source, progress.index), progress.token.watch
        if progress.threads > 1 and suits_threads(progress.index, run):
            return self._decode_in_threads(progress, watch(read(run)))
        return self.decode_packets(progress.index, run, lambda some: watch(_many_at_once(read(some))), progress.sink)

    def decode_packets(
        self, index: VideoIndex, run: Run, read: Callable[[Run], Iterable[PacketBytes]], sink: ClipSink
    ) -> int:
        """Decode a run in this thread, with packets that ``read`` returns."""
        fed, corrupt = self.take_packets(index, run, read, sink)
        sink.finish()
        sink.mark(corrupt)
        return fed

    def take_packets(
        self, index: VideoIndex, run: Run, read: Callable[[Run], Iterable[PacketBytes]], sink: ClipSink
    ) -> tuple[int, set[int]]:
        """Decode as ``decode_packets`` does, but the sink may still hold unconverted pictures."""
        return decode_run(self._decoder, index, run, read, sink.collect_frame)

    def _decode_in_threads(self, progress: ReadProgress, packets: Iterator[PacketBytes]) -> int:
        fed = count()
        counted = (packet for packet, _ in zip(packets, fed, strict=False))
        frames = decode_in_threads(progress.index, counted, progress.threads)
        if self._device.type == "cuda":
            for packet, frame in frames:
                progress.sink.write_frame(packet, frame)
        else:
            convert_in_threads(frames, progress.sink, 2 * progress.threads)
        return next(fed)


class NvdecEngine(DecodingEngine):
    """Decodes in NVDEC sessions that all threads share.

    Args:
        stream: CUDA stream of the thread's reader, for pictures from a cache.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream, self._decoder = stream, NvdecDecoder(gpu=stream.device.index)

    def begin(self, progress: ReadProgress) -> None:
        """Deliver the pictures that the cache has."""
        if progress.cache is None:
            return
        sink = progress.sink
        kept = progress.cache.find(progress.index, sink.wanted, self._stream)
        for packet, surface in kept.items():
            sink.collect_surface(packet, surface, self._stream)
        sink.finish()
        if kept:
            progress.settle(np.array(list(kept), np.int64))
            progress.plan = None

    def decode(self, progress: ReadProgress, run: Run) -> int:
        index, sink, cache = progress.index, progress.sink, progress.cache
        read = partial(read_packets, progress.source, index, places=True)
        if cache is None:
            return self._decoder.decode(index, partial(read, run), sink.collect_surface, sink.finish)
        # Every picture of the run goes to clips or to the cache.
        run = with_all_frames(index, int(run.packets[0]), int(run.packets[-1]))
        kept: dict[int, CudaSurface] = {}
        wanted, used = sink.wanted, []

        def put(packet: int, surface: CudaSurface, stream: torch.cuda.Stream) -> None:
            kept[packet] = copy_surface(surface, stream)
            used.append(stream)
            if packet in wanted:
                sink.collect_surface(packet, surface, stream)

        decoded = self._decoder.decode(index, partial(read, run), put, sink.finish)
        # Only now, at the end: in a run that fails, a packet may have got the wrong picture.
        if used:
            cache.add(index, kept, used[-1])
        return decoded


class JpegEngine(DecodingEngine):
    """Decodes files with the GPU's JPEG engines, and with the CPU those that they do not support.

    Args:
        stream: CUDA stream on which pictures are decoded.
        cpu: decodes the other files.
    """

    def __init__(self, stream: torch.cuda.Stream, cpu: CpuEngine) -> None:
        self._stream, self._cpu = stream, cpu
        self._decoder: JpegDecoder | None = None  # made on demand: it takes memory that most reads do not need

    def decode(self, progress: ReadProgress, run: Run) -> int:
        index, sink = progress.index, progress.sink
        packets = progress.token.watch(read_packets(progress.source, index, run))
        self._decoder = self._decoder or JpegDecoder(self._stream.device.index)
        decoded = 0
        for packet in packets:
            if not packet.wanted:
                continue
            picture = bytes(packet.data)
            layout = engine_layout(picture, index.stream)
            if layout is None:
                single = np.array([packet.number])
                self._cpu.decode_packets(index, Run(single, single), partial(_again, packet), sink)
            else:
                sink.collect_surface(packet.number, self._decoder.surface(picture, layout, self._stream), self._stream)
                sink.finish()
            decoded += 1
        return decoded


def engines_of(cpu: CpuEngine, stream: torch.cuda.Stream | None) -> dict[Engine, DecodingEngine]:
    """Return all engines of one thread, by the names that ``choose_engine`` gives.

    Args:
        cpu: the thread's CPU engine.
        stream: CUDA stream of the thread's reader; None for a reader on the CPU.
    """
    if stream is None:
        return {"cpu": cpu}
    return {"cpu": cpu, "nvdec": NvdecEngine(stream), "jpeg": JpegEngine(stream, cpu)}


def _many_at_once(packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Yield the same packets, but prepare many of them before yielding the first.

    Python code that runs between two calls of a decoder finds the processor's caches full of pictures and takes up to
    ten times as long. Since it holds the GIL meanwhile, many threads then make fewer clips.
    """
    ready: list[PacketBytes] = []
    size = 0
    try:
        for packet in packets:
            ready.append(packet)
            size += len(packet.data)
            if len(ready) == _MOST_PACKETS_READY or size >= _MOST_BYTES_READY:
                yield from ready
                size = 0
                ready.clear()
    except Exception:
        yield from ready  # what comes before the fault is sound
        raise
    yield from ready


def _again(packet: PacketBytes, run: Run) -> list[PacketBytes]:
    """Return the packet of a file that has been read already, as a run."""
    return [packet]
