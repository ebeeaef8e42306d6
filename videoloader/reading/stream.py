"""Stream the frames of a video in order, decoded by all cores together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import repeat

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.decoding.frame_threads import NeedsOneThreadError, decode_in_threads
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.sources.patience import cancellable
from videoloader.indexing.sources.state import check_unchanged
from videoloader.packets.decode_plan import PacketBytes, Run
from videoloader.packets.read_packets import read_packets
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.clip_reader import warn_of_hdr
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.conversion_threads import conversion_threads


def stream_in_threads(
    source: ByteSource,
    index: VideoIndex,
    frames: npt.NDArray[np.int64],
    runs: Sequence[Run],
    output: OutputSpec,
    threads: int,
    ahead: int,
    token: CancelToken,
    memory: Callable[[], torch.Tensor] | None = None,
) -> Iterator[torch.Tensor]:
    """Yield frames in order, each [3, H, W] on the CPU. No packet is decoded twice.

    Args:
        source: source of the video.
        index: index of the video.
        frames: frame numbers in rising order.
        runs: runs of their decode plan.
        output: the pixel values wanted.
        threads: number of decoding threads.
        ahead: maximum number of frames that may be ready or in the making.
        token: cancels the reading of packets.
        memory: function that returns the memory of the next picture, in order; None for new memory each time.

    Raises:
        NeedsOneThreadError: see ``decode_in_threads``; or an edit list shows frames in another order than the decoder
            gives them. Frames yielded before are right.
        WrongIndexError: see ``read_packets``. Frames yielded before are right.
        StaleIndexError: the source has changed since it was opened.
    """
    warn_of_hdr(index)
    geometry = full_geometry(index.stream)
    memory = memory or partial(torch.empty, (3, *geometry.size), dtype=output.dtype, device="cpu")
    making: deque[tuple[torch.Tensor, Future[None], int]] = deque()
    # A packet may be shown several times.
    packet_of = index.frame_packet[frames].astype(np.int64)
    first = np.flatnonzero(np.diff(packet_of, prepend=-1))
    times = np.diff(first, append=len(frames)).tolist()
    due = zip(frames[first].tolist(), packet_of[first].tolist(), times, strict=True)
    try:
        for run in runs:
            for packet, picture in decode_in_threads(index, _read_unchanged(source, index, run, token), threads):
                frame, expected, shown = next(due, (0, -1, 0))
                if packet != expected:  # an edit list goes back
                    raise NeedsOneThreadError
                pixels = memory()
                sink = ClipSink(index, [whole_clip(np.array([frame]), geometry, pixels[None])], output, None)
                making.append((pixels, conversion_threads().submit(sink.write_frame, packet, picture), shown))
                if len(making) >= ahead:
                    yield from _made(making)
                    token.raise_if_forked()
        while making:
            yield from _made(making)
            token.raise_if_forked()
        if next(due, None) is not None:
            raise NeedsOneThreadError
    finally:
        if not token.threads_gone:
            for _, conversion, _ in making:
                conversion.cancel()


def _read_unchanged(source: ByteSource, index: VideoIndex, run: Run, token: CancelToken) -> Iterator[PacketBytes]:
    """Yield the packets of a run; see ``read_packets``. The last frames come only if the source has not changed."""
    packets: Iterator[PacketBytes] | None = None
    while True:
        # Only while reading: between two packets the thread may do other work.
        with cancellable(token.raise_if_cancelled):
            packets = packets or read_packets(source, index, run)
            packet = next(packets, None)
        if packet is None:
            break
        yield packet
    check_unchanged(source, index.state)


def _made(making: deque[tuple[torch.Tensor, Future[None], int]]) -> Iterator[torch.Tensor]:
    """Yield the oldest frame as often as it is shown, each time in memory of its own."""
    pixels, conversion, shown = making.popleft()
    conversion.result()
    yield from (pixels.clone() for _ in repeat(None, shown - 1))
    last = [pixels]
    del pixels  # a stream that waits keeps no frame alive that it gave out
    yield last.pop()
