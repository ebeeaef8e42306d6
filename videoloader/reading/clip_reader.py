"""Make clips from frame numbers: plan, read, decode, and convert straight into their slots."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from videoloader.convert.spec import hdr_transfer
from videoloader.convert.upload import free_staging
from videoloader.decoding.damage import lost_frame
from videoloader.decoding.engine import Decode, Engine, choose_engine, leave_to_cpu
from videoloader.decoding.frame_threads import NeedsOneThreadError
from videoloader.errors import (
    DecodeError,
    IndexingError,
    SourceError,
    StaleIndexError,
    UnsupportedError,
    VideoLoaderError,
    VideoWarning,
    enough_memory,
)
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import ByteSource, FolderSource, VideoIndex
from videoloader.indexing.sources.patience import cancellable
from videoloader.indexing.sources.remote_reads import NO_READS, RemoteReads, reads_so_far
from videoloader.indexing.sources.reopening import reopen_source
from videoloader.indexing.sources.state import SourceState, check_unchanged
from videoloader.packets.decode_plan import DecodePlan
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import Correction, WrongIndexError
from videoloader.padding.pad import real_frames
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.engines import CpuEngine, engines_of
from videoloader.reading.read_progress import ReadProgress
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.device import own_stream


@dataclass(frozen=True, eq=False)
class ClipsReport:
    """The cost of making some clips of one video, and what was learned of its index.

    Attributes:
        packets: number of packets decoded.
        frames: number of distinct frames wanted.
        corrupt_frames: number of distinct wanted frames that are corrupt; see ``ClipSlots.corrupt``.
        decoded_by: the index by which all frames were decoded. It is a corrected one if the container wrongly marked a
            packet as a keyframe, or if parameter sets were found. None in a report as it comes from another process.
        corrections: corrections of the index, in the order to apply them.
        ready: CUDA events; the slots are complete when all have occurred. Empty on the CPU.
        seconds: time that the read took in its thread.
        engine: the engine that decoded the clips; ``"jpeg"`` also where the CPU decoded some of their files.
        remote: reads from servers that this took.
    """

    packets: int
    frames: int
    corrupt_frames: int
    decoded_by: VideoIndex | None
    corrections: tuple[Correction, ...]
    ready: list[torch.cuda.Event]
    seconds: float
    engine: Engine
    remote: RemoteReads = NO_READS

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the index, since pickling its arrays takes longer than pickling all else that processes send."""
        return {**self.__dict__, "decoded_by": None}

    @property
    def index(self) -> VideoIndex:
        """``decoded_by``, in a report of this process."""
        assert self.decoded_by is not None, "the report comes from another process"
        return self.decoded_by

    def corrected(self, index: VideoIndex) -> VideoIndex:
        """Apply the corrections to an index of the video, which other jobs may have corrected meanwhile."""
        for correct in self.corrections:
            index = correct(index)
        return index


class ClipReader:
    """Makes clips in one thread, with decoders that stay open from clip to clip.

    Args:
        device: device on which the clips are made.
        decode: engines that may decode; see ``choose_engine``.
    """

    def __init__(self, device: torch.device, decode: Decode = "auto") -> None:
        self.device, self.decode = device, decode
        self._stream = own_stream(device, self) if device.type == "cuda" else None
        if self._stream is not None:
            weakref.finalize(self, free_staging, self._stream).atexit = False
        self._cpu = CpuEngine(device)
        self._engines = engines_of(self._cpu, self._stream)

    def read(self, request: ReadRequest, token: CancelToken | None = None) -> ClipsReport:
        """Decode the frames of some clips of one video, each frame once, and write them into their slots.

        Args:
            request: the clips.
            token: token that cancels the read. It is checked before each packet on the CPU, but only before each run on
                NVDEC, since a session abandoned in the middle of a run cannot be used again.

        Raises:
            ReadCancelled: ``token`` was cancelled.
            FrameRangeError: a frame number lies outside the video.
            DecodeError: a frame cannot be decoded.
            SourceError: the source cannot be read.
            StaleIndexError: the source has changed since it was indexed or opened.
            UnsupportedError: there is no decoder for the codec, or no conversion of its colours.
        """
        token, begin, read_before = token or CancelToken(), time.perf_counter(), reads_so_far()
        index, clips = request.index, request.clips
        on_device = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        with cancellable(token.raise_if_cancelled), on_device:
            source = request.source
            source = reopen_source(source, index.state) if isinstance(source, str) else source
            numbers = real_frames(np.concatenate([clip.frame_numbers for clip in clips]))
            index.check_range(numbers)
            warn_of_hdr(index)
            with _errors_of_files(source, index, index.state):
                sink = ClipSink(index, clips, request.output, self._stream)
                progress = ReadProgress(
                    source, index, numbers, request.plan, sink, token, request.threads, request.cache
                )
                try:
                    engine = self._decode(progress)
                    check_unchanged(source, index.state)
                except BaseException:
                    # The caller will use this memory for something else, so no stream may write to it any more.
                    for stream in sink.streams:
                        stream.synchronize()
                    raise
                ready = [stream.record_event() for stream in sink.streams]
                for clip in clips:
                    for stream in sink.streams:
                        clip.slots.record_stream(stream)
                _check_complete(index, sink)
        seconds = time.perf_counter() - begin
        wanted, corrupt, learned = len(sink.wanted), len(sink.marked), tuple(progress.corrections)
        remote = reads_so_far() - read_before
        return ClipsReport(progress.decoded, wanted, corrupt, progress.index, learned, ready, seconds, engine, remote)

    def read_images(self, images: Sequence[ReadRequest], token: CancelToken) -> list[ClipsReport | VideoLoaderError]:
        """Read several image files on the CPU as ``read`` does, but decode all before converting the first.

        Args:
            images: the files, opened and planned.
            token: token that cancels the read.

        Returns:
            The report of each image, or its error if it cannot be made.

        Raises:
            ReadCancelled: ``token`` was cancelled.
        """
        begin = time.perf_counter()
        both = [(image, ClipSink(image.index, image.clips, image.output, None)) for image in images]
        errors: list[VideoLoaderError | None] = [None] * len(both)
        for step in (partial(self._take_image, token), _finish_image):
            errors = [error or _error_of(step, *each) for error, each in zip(errors, both, strict=True)]
        seconds = (time.perf_counter() - begin) / max(len(both), 1)
        counts = [(_plan_of(image).packets, len(sink.wanted), len(sink.marked)) for image, sink in both]
        return [
            error or ClipsReport(*each, image.index, (), [], seconds, "cpu")
            for error, each, image in zip(errors, counts, images, strict=True)
        ]

    def _take_image(self, token: CancelToken, image: ReadRequest, sink: ClipSink) -> None:
        token.raise_if_cancelled()
        warn_of_hdr(image.index)
        for run in _plan_of(image).runs:
            read = partial(read_packets, _source_of(image), image.index)
            _, corrupt = self._cpu.take_packets(image.index, run, read, sink)
            sink.mark(corrupt)

    def _decode(self, progress: ReadProgress) -> Engine:
        """Decode run after run until nothing is left to correct; return the engine that did it."""
        engine = choose_engine(progress.index, self.device, self.decode)
        self._engines[engine].begin(progress)
        while True:
            try:
                for run in progress.runs():
                    progress.token.raise_if_cancelled()
                    progress.decoded += self._engines[engine].decode(progress, run)
                    progress.settle(run.wanted)
                return engine
            except WrongIndexError as found:
                progress.correct(found)
            except NeedsOneThreadError:
                progress.threads, progress.decoded = 1, 0
                progress.start_again()
            except DecodeError as error:
                raise_of_handler(error)
                if self.decode != "auto" or not self._engines[engine].falls_back:
                    raise
                # What the engine made of this clip cannot be trusted, so the CPU decodes all of it again.
                leave_to_cpu(progress.index, str(error))
                engine = "cpu"
                progress.start_again()


@contextmanager
def _errors_of_files(source: ByteSource, index: VideoIndex, state: SourceState | None) -> Iterator[None]:
    """Name the file that is to blame in errors, and raise StaleIndexError if the source has changed."""
    try:
        with enough_memory(source=index.source):
            yield
    except (DecodeError, IndexingError, SourceError, UnsupportedError) as error:
        # If the file is no longer the one that was indexed, any of these errors may come from that.
        if not isinstance(error, StaleIndexError):
            try:
                check_unchanged(source, state)
            except StaleIndexError as stale:
                raise stale from error
            except SourceError:
                pass  # the source cannot be read, as the error already says
        if isinstance(error, UnsupportedError) and error.source is None:  # conversion does not know file names
            raise UnsupportedError(error.message, index.source) from None
        if isinstance(error, DecodeError) and error.packet is not None and isinstance(source, FolderSource):
            file = source.file_at(int(index.packet_offset[error.packet]))
            raise DecodeError(error.message, file, error.packet) from None
        raise


def _source_of(image: ReadRequest) -> ByteSource:
    assert not isinstance(image.source, str), "the file is open"
    return image.source


def _plan_of(image: ReadRequest) -> DecodePlan:
    assert image.plan is not None, "the file is planned"
    return image.plan


def _finish_image(image: ReadRequest, sink: ClipSink) -> None:
    sink.finish()
    _check_complete(image.index, sink)


def _error_of(
    step: Callable[[ReadRequest, ClipSink], None], image: ReadRequest, sink: ClipSink
) -> VideoLoaderError | None:
    """Take a step with an image and return the error it ends with, or None."""
    try:
        with _errors_of_files(_source_of(image), image.index, None):
            step(image, sink)
    except VideoLoaderError as error:
        raise_of_handler(error)
        return error
    return None


def _check_complete(index: VideoIndex, sink: ClipSink) -> None:
    """Raise DecodeError if a wanted frame has not come."""
    if missing := sorted(sink.wanted - sink.done):
        raise lost_frame(index, missing[0])


def warn_of_hdr(index: VideoIndex) -> None:
    """Warn that the colours of an HDR video are not tone-mapped."""
    if transfer := hdr_transfer(index.stream):
        warnings.warn(f"HDR video ({transfer}): colours come out as coded, not tone-mapped", VideoWarning, stacklevel=2)


_thread = threading.local()


def reader_of_thread(device: torch.device, decode: Decode) -> ClipReader:
    """Return the calling thread's own reader for a device."""
    readers: dict[tuple[torch.device, Decode], ClipReader] = _thread.__dict__.setdefault("readers", {})
    if (device, decode) not in readers:
        readers[device, decode] = ClipReader(device, decode)
    return readers[device, decode]
