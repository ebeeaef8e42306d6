"""``ClipSink``: convert decoded pictures into the slots of the clips that want them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import av
import numpy as np
import torch
from av.video.reformatter import VideoReformatter

from videoloader.convert.border import Border, extend_picture, fill_border
from videoloader.convert.cpu import convert_frames
from videoloader.convert.cuda import convert_surfaces
from videoloader.convert.spec import ColorSpec, Conversion, OutputSpec, color_spec, fill_pixel
from videoloader.convert.surface import CudaSurface
from videoloader.convert.upload import upload_frame
from videoloader.errors import UnsupportedError
from videoloader.indexing import VideoIndex
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.clip_slots import ClipSlots
from videoloader.runtime.device import on_stream

# Limits on the pictures that a thread holds to convert them together, in number and in pixels (16 MiB at 8 bits and
# 4:2:0).
_MOST_FRAMES_HELD, MOST_PIXELS_HELD = 16, (16 << 20) * 2 // 3


class ClipSink:
    """Takes the pictures of one video from a decoder and converts each into all slots that want it.

    What is taken is converted with other pictures, at the latest in ``finish``; what is written, at once.

    Args:
        index: index of the video.
        clips: clips of that video.
        output: the pixel values wanted.
        stream: CUDA stream for borders, padding and pictures that NVDEC does not decode; None on the CPU.

    Attributes:
        wanted: the packets whose pictures are wanted.
        done: the wanted packets whose pictures have arrived.
        marked: the wanted packets whose frames are corrupt.
        streams: the CUDA streams on which slots are written.
    """

    def __init__(
        self, index: VideoIndex, clips: Sequence[ClipSlots], output: OutputSpec, stream: torch.cuda.Stream | None
    ) -> None:
        self._stream_info, self._colors = index.stream, color_spec(index.stream)
        self._clips, self._output, self._cuda_stream = clips, output, stream
        self.done: set[int] = set()
        self.marked: set[int] = set()
        self.streams: set[torch.cuda.Stream] = set() if stream is None else {stream}
        self._last_stream = stream
        self._frames: list[tuple[int, av.VideoFrame]] = []
        # For each clip, the pictures that wait for ``finish``, each with the positions in the clip that show it.
        self._arrived: defaultdict[int, list[tuple[CudaSurface, list[int]]]] = defaultdict(list)
        # For each clip, the part of its slots that conversion writes.
        self._pictures: list[torch.Tensor] = []
        self._positions = [clip.positions.tolist() for clip in clips]
        for number, clip in enumerate(clips):
            clip.corrupt[clip.positions] = False
            border = clip.geometry.border
            self._pictures.append(clip.slots if border is None else border.picture(clip.slots))
            if border is not None and border.mode == "constant":
                # Borders are filled now, not with each picture: the two do not overlap, so their order does not matter.
                self._fill_borders(number, border)
            constant = np.flatnonzero(clip.frame_numbers == CONSTANT_FRAME).tolist()
            if constant:
                self._fill(number, constant)
        # Flat lists of (clip, frame) ordered by packet, the bounds of each packet's part of them, and the places of the
        # packets among the bounds. A list or pair for each packet would be one more object for Python's garbage
        # collector: see docs/architecture/nvdec.md.
        clip_of = np.repeat(np.arange(len(clips)), [len(clip.frame_numbers) for clip in clips])
        frame_of = np.concatenate([np.arange(len(clip.frame_numbers)) for clip in clips])
        numbers = np.concatenate([clip.frame_numbers for clip in clips])
        shown = np.flatnonzero(numbers != CONSTANT_FRAME)
        packets = index.frame_packet[numbers[shown]]
        order = np.argsort(packets, kind="stable")
        self._clip_of, self._frame_of = clip_of[shown[order]].tolist(), frame_of[shown[order]].tolist()
        wanted, begin = np.unique(packets[order], return_index=True)
        self._bounds = [*begin.tolist(), len(order)]
        self._places = dict(zip(wanted.tolist(), range(len(wanted)), strict=True))

    @property
    def wanted(self) -> set[int]:
        return set(self._places)

    def _frames_of(self, packet: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the clips that want a packet's picture, each with the frames of the clip that show it."""
        place = self._places[packet]
        begin, stop = self._bounds[place], self._bounds[place + 1]
        while begin < stop:
            clip = self._clip_of[begin]
            end = bisect_right(self._clip_of, clip, begin, stop)
            yield clip, self._frame_of[begin:end]
            begin = end

    def start_again(self) -> None:
        """Forget all pictures that have arrived. They are written again, after the writes under way."""
        self.forget(self.wanted)
        self._frames.clear()
        self._arrived.clear()
        if self._cuda_stream is not None:
            for stream in self.streams:
                self._cuda_stream.wait_stream(stream)

    def forget(self, packets: Collection[int]) -> None:
        """Expect the pictures of some packets again, since they may have been wrong."""
        self.done.difference_update(packets)
        self.marked.difference_update(packets)
        self._set_corrupt(packets, False)

    def mark(self, packets: Collection[int]) -> None:
        """Mark the frames of some wanted packets as corrupt."""
        self.marked.update(packets)
        self._set_corrupt(packets, True)

    def _set_corrupt(self, packets: Collection[int], corrupt: bool) -> None:
        for packet in packets:
            for clip, frames in self._frames_of(packet):
                slots = self._clips[clip]
                slots.corrupt[slots.positions[frames]] = corrupt

    def collect_frame(self, packet: int, frame: av.VideoFrame) -> None:
        """Collect a picture from the CPU engine. It is converted together with others, at the latest in ``finish``.

        Converting pictures one by one between calls of the decoder takes longer: see ``_many_at_once`` in
        ``engines.py``.
        """
        self._frames.append((packet, frame))
        count = len(self._frames)
        if count == _MOST_FRAMES_HELD or count * frame.width * frame.height >= MOST_PIXELS_HELD:
            self._write_collected()

    def _write_collected(self) -> None:
        self.write_frames(self._frames)
        self._frames.clear()

    def write_frame(self, packet: int, frame: av.VideoFrame) -> None:
        """Convert one picture from the CPU engine at once."""
        self.write_frames([(packet, frame)])

    def write_frames(self, frames: Sequence[tuple[int, av.VideoFrame]]) -> None:
        """Convert pictures from the CPU engine at once."""
        info = self._stream_info
        alike: defaultdict[ColorSpec, list[tuple[int, av.VideoFrame]]] = defaultdict(list)
        for packet, frame in frames:
            if (frame.width, frame.height) != (info.width, info.height):
                # A picture whose size differs from the video's is shown at the size of the video. ``frame.reformat``
                # keeps a scaler for each thread, with threads of its own. A forked process that frees it waits for them
                # forever.
                try:
                    frame = VideoReformatter().reformat(frame, info.width, info.height, threads=1)
                except av.error.FFmpegError as error:  # swscale has limits
                    sizes = f"{frame.width}×{frame.height} to {info.width}×{info.height}"
                    raise UnsupportedError(
                        f"a picture cannot be scaled from {sizes} pixels ({error.strerror})"
                    ) from None
            colors = color_spec(info, frame)
            if self._cuda_stream is not None and (surface := upload_frame(frame, self._cuda_stream)):
                self.collect_surface(packet, surface, self._cuda_stream)
                self._convert(colors, self._cuda_stream)
            else:
                alike[colors].append((packet, frame))
        for colors, some in alike.items():
            self._convert_in_memory(some, colors)

    def _convert_in_memory(self, pictures: list[tuple[int, av.VideoFrame]], colors: ColorSpec) -> None:
        """Convert pictures on the CPU, all that one clip wants together."""
        wanted: defaultdict[int, list[tuple[av.VideoFrame, list[int]]]] = defaultdict(list)
        for packet, frame in pictures:
            for clip, frames in self._frames_of(packet):
                wanted[clip].append((frame, frames))
        for clip, arrived in wanted.items():
            geometry, slots = self._clips[clip].geometry, self._pictures[clip]
            targets = [self._positions[clip][frames[0]] for _, frames in arrived]
            made, places = slots, targets
            if slots.is_cuda:
                made = torch.empty((len(targets), *slots.shape[1:]), dtype=slots.dtype, device="cpu", pin_memory=True)
                places = list(range(len(targets)))
            frames_there = [frame for frame, _ in arrived]
            convert_frames(frames_there, self._conversion(clip, colors), made, places)
            with on_stream(self._cuda_stream):
                for place, target, (_, frames) in zip(places, targets, arrived, strict=True):
                    if made is not slots:
                        slots[target].copy_(made[place], non_blocking=True)
                    if len(frames) > 1 or geometry.border is not None:
                        self._complete(clip, frames)
        self.done.update(packet for packet, _ in pictures)

    def collect_surface(self, packet: int, surface: CudaSurface, stream: torch.cuda.Stream) -> None:
        """Collect a picture in GPU memory that is ready on a stream and stays valid until ``finish``."""
        if stream is not self._last_stream:
            self._last_stream = stream
            self.streams.add(stream)
        for clip, frames in self._frames_of(packet):
            self._arrived[clip].append((surface, frames))
        self.done.add(packet)

    def finish(self) -> None:
        """Convert the pictures that ``collect_frame`` and ``collect_surface`` have collected."""
        self._write_collected()
        if self._last_stream is not None:
            self._convert(self._colors, self._last_stream)

    def _conversion(self, clip: int, colors: ColorSpec) -> Conversion:
        info = self._stream_info
        return Conversion(colors, info.rotation, info.mirrored, self._clips[clip].geometry, self._output)

    def _convert(self, colors: ColorSpec, stream: torch.cuda.Stream) -> None:
        for clip, arrived in self._arrived.items():
            geometry, slots = self._clips[clip].geometry, self._pictures[clip]
            surfaces = [surface for surface, _ in arrived]
            targets = [self._positions[clip][frames[0]] for _, frames in arrived]
            convert_surfaces(surfaces, self._conversion(clip, colors), slots, targets, stream.cuda_stream)
            incomplete = [frames for _, frames in arrived if len(frames) > 1 or geometry.border is not None]
            if incomplete:
                with torch.cuda.stream(stream):
                    for frames in incomplete:
                        self._complete(clip, frames)
        self._arrived.clear()

    def _complete(self, clip: int, frames: list[int]) -> None:
        """Complete frames that show the same picture: extend the first one's border and copy it to the others."""
        border, slots = self._clips[clip].geometry.border, self._pictures[clip]
        first, *others = [self._positions[clip][frame] for frame in frames]
        if border is not None and border.mode != "constant":
            slots = self._clips[clip].slots
            extend_picture(slots[first], border)
        for other in others:
            slots[other].copy_(slots[first], non_blocking=True)

    def _fill(self, clip: int, frames: list[int]) -> None:
        """Fill the frames of constant padding."""
        picture = self._pictures[clip][self._positions[clip][frames[0]]]
        with on_stream(self._cuda_stream):
            picture.copy_(self._pixel(picture, self._output.fill_value)[:, None, None].expand_as(picture))
            self._complete(clip, frames)

    def _fill_borders(self, clip: int, border: Border) -> None:
        slots = self._clips[clip].slots
        with on_stream(self._cuda_stream):
            pixel = self._pixel(slots, border.fill)
            for position in self._positions[clip]:
                fill_border(slots[position], border, pixel)

    def _pixel(self, slot: torch.Tensor, color: tuple[float, float, float]) -> torch.Tensor:
        """Return a colour, [3], as pixel values of a slot."""
        output = replace(self._output, fill_value=color)
        return slot.new_tensor(fill_pixel(self._stream_info, self._colors, output))
