"""Where decoded pictures go: each into the slots of the clips that want it, once it is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import (
    Border,
    ColorSpec,
    CudaSurface,
    Geometry,
    OutputSpec,
    color_spec,
    convert_frame,
    convert_surfaces,
    extend_picture,
    fill_border,
    fill_pixel,
    upload_frame,
)
from videoloader.indexing import VideoIndex
from videoloader.padding import CONSTANT_FRAME
from videoloader.planning import split_at_keyframes


@dataclass(frozen=True, eq=False)
class ClipSlots:
    """A clip, or a part of one, that is to be made.

    Attributes:
        frame_numbers: int64[T], in any order, repeats allowed; CONSTANT_FRAME gives one of the fill value.
        geometry: which part of the frames, and how large.
        slots: for each of the T frames the [3, H, W] tensor it is written to, with its border, of any strides, all on
            one device.
    """

    frame_numbers: npt.NDArray[np.int64]
    geometry: Geometry
    slots: Sequence[torch.Tensor]


class ClipPart(NamedTuple):
    """Some frames of one of several clips: which clip, their positions in it, and where they go."""

    clip: int
    positions: npt.NDArray[np.int64]
    slots: ClipSlots


def split_clips(
    index: VideoIndex, clips: Sequence[ClipSlots], least_packets: int
) -> Iterator[tuple[npt.NDArray[np.int64], list[ClipPart]]]:
    """Clips of one video as jobs for several decoders: each GOP is decoded once.

    Args:
        index: of the video.
        clips: of it.
        least_packets: see ``split_at_keyframes``.

    Returns:
        For each job the frame numbers to decode, and the parts of clips that want them.
    """
    numbers = np.concatenate([clip.frame_numbers for clip in clips])
    # Frames of padding need no packets: they go with the first job, which may be all there is.
    jobs = split_at_keyframes(index, numbers[numbers != CONSTANT_FRAME], least_packets) or [numbers[:0]]
    for job, frames in enumerate(jobs):
        parts = []
        for number, clip in enumerate(clips):
            wanted = np.isin(clip.frame_numbers, frames)
            if not job:
                wanted |= clip.frame_numbers == CONSTANT_FRAME
            if wanted.any():
                positions = np.flatnonzero(wanted)
                slots = [clip.slots[position] for position in positions.tolist()]
                parts.append(
                    ClipPart(number, positions, ClipSlots(clip.frame_numbers[positions], clip.geometry, slots))
                )
        if parts:
            yield frames, parts


class ClipSink:
    """Takes the pictures of one video from a decoder and converts each into all slots that want it.

    Args:
        index: of the video.
        clips: of that video.
        output: the pixel values wanted.
        stream: for what is not decoded by NVDEC; None on the CPU.

    Attributes:
        corrupt: for each clip bool[T], the decoder found the frame damaged.
        packets: the packets whose pictures are wanted.
        done: those of them that have come.
        streams: CUDA streams that slots were written on.
    """

    def __init__(
        self, index: VideoIndex, clips: Sequence[ClipSlots], output: OutputSpec, stream: torch.cuda.Stream | None
    ) -> None:
        self._stream, self._colors = index.stream, color_spec(index.stream)
        self._clips, self._output, self._cuda_stream = clips, output, stream
        self.corrupt = [np.zeros(len(clip.frame_numbers), np.bool_) for clip in clips]
        self.done: set[int] = set()
        self.streams: set[torch.cuda.Stream] = set() if stream is None else {stream}
        self._last_stream = stream
        # For each packet the clips that want its picture, each with the positions it has there.
        self._places: dict[int, list[tuple[int, list[int]]]] = {}
        # For each clip the pictures that wait for ``finish``, with the positions they have there.
        self._arrived: defaultdict[int, list[tuple[CudaSurface, list[int]]]] = defaultdict(list)
        # For each clip the part of its slots that conversion writes.
        self._pictures: list[Sequence[torch.Tensor]] = []
        for number, clip in enumerate(clips):
            border = clip.geometry.border
            self._pictures.append(clip.slots if border is None else [border.picture(slot) for slot in clip.slots])
            if border is not None and border.mode == "constant":
                # Now and not with each picture: the two do not touch each other, so their order means nothing.
                self._fill_borders(clip.slots, border)
            constant = np.flatnonzero(clip.frame_numbers == CONSTANT_FRAME).tolist()
            if constant:
                self._fill(number, constant)
            positions: dict[int, list[int]] = {}
            for position, frame in enumerate(clip.frame_numbers.tolist()):
                if frame != CONSTANT_FRAME:
                    positions.setdefault(int(index.frame_packet[frame]), []).append(position)
            for packet, at in positions.items():
                self._places.setdefault(packet, []).append((number, at))

    @property
    def packets(self) -> set[int]:
        return set(self._places)

    def frame_of(self, packet: int) -> int:
        """The number of a wanted packet's frame."""
        clip, positions = self._places[packet][0]
        return int(self._clips[clip].frame_numbers[positions[0]])

    def start_again(self) -> None:
        """Forget what has come: all of it is written again, after what is under way."""
        self.done.clear()
        self._arrived.clear()
        if self._cuda_stream is not None:
            for stream in self.streams:
                self._cuda_stream.wait_stream(stream)

    def put_frame(self, packet: int, frame: av.VideoFrame) -> None:
        """Convert a picture of the CPU engine."""
        for clip, positions in self._places[packet]:
            self.corrupt[clip][positions] = frame.is_corrupt
        stream = self._stream
        if (frame.width, frame.height) != (stream.width, stream.height):
            # A picture that changes its size on the way is shown at the size of the video.
            frame = frame.reformat(width=stream.width, height=stream.height)
        colors = color_spec(stream, frame)
        if self._cuda_stream is not None and (surface := upload_frame(frame, self._cuda_stream)):
            self.put_surface(packet, surface, self._cuda_stream)
            self._convert(colors, self._cuda_stream)
            return
        for clip, positions in self._places[packet]:
            geometry, slot = self._clips[clip].geometry, self._pictures[clip][positions[0]]
            target = torch.empty(slot.shape, dtype=slot.dtype, pin_memory=True) if slot.is_cuda else slot
            convert_frame(frame, colors, stream.rotation, stream.mirrored, geometry, self._output, target)
            with _on(self._cuda_stream):
                if target is not slot:
                    slot.copy_(target, non_blocking=True)
                self._complete(clip, positions)
        self.done.add(packet)

    def put_surface(self, packet: int, surface: CudaSurface, stream: torch.cuda.Stream) -> None:
        """Take a picture that lies on the GPU, ready on a stream, and valid until ``finish``."""
        if stream is not self._last_stream:
            self._last_stream = stream
            self.streams.add(stream)
        for clip, positions in self._places[packet]:
            self._arrived[clip].append((surface, positions))
        self.done.add(packet)

    def finish(self) -> None:
        """Convert the pictures that ``put_surface`` has taken."""
        if self._last_stream is not None:
            self._convert(self._colors, self._last_stream)

    def _convert(self, colors: ColorSpec, stream: torch.cuda.Stream) -> None:
        rotation, mirrored = self._stream.rotation, self._stream.mirrored
        for clip, arrived in self._arrived.items():
            geometry, pictures = self._clips[clip].geometry, self._pictures[clip]
            surfaces = [surface for surface, _ in arrived]
            slots = [pictures[positions[0]] for _, positions in arrived]
            convert_surfaces(
                surfaces, colors, rotation, mirrored, geometry, self._output, slots, stream.cuda_stream
            )  # fmt: skip
            incomplete = [positions for _, positions in arrived if len(positions) > 1 or geometry.border is not None]
            if incomplete:
                with torch.cuda.stream(stream):
                    for positions in incomplete:
                        self._complete(clip, positions)
        self._arrived.clear()

    def _complete(self, clip: int, positions: list[int]) -> None:
        """Make the rest out of the picture at the first of some positions."""
        border, slots = self._clips[clip].geometry.border, self._pictures[clip]
        if border is not None and border.mode != "constant":
            slots = self._clips[clip].slots
            extend_picture(slots[positions[0]], border)
        for position in positions[1:]:
            slots[position].copy_(slots[positions[0]], non_blocking=True)

    def _fill(self, clip: int, positions: list[int]) -> None:
        """Make the frames of constant padding."""
        picture = self._pictures[clip][positions[0]]
        with _on(self._cuda_stream):
            picture.copy_(self._pixel(picture, self._output.fill_value)[:, None, None].expand_as(picture))
            self._complete(clip, positions)

    def _fill_borders(self, slots: Sequence[torch.Tensor], border: Border) -> None:
        with _on(self._cuda_stream):
            pixel = self._pixel(slots[0], border.fill)
            for slot in slots:
                fill_border(slot, border, pixel)

    def _pixel(self, slot: torch.Tensor, color: tuple[float, float, float]) -> torch.Tensor:
        """[3]: a colour in the numbers of a slot."""
        output = replace(self._output, fill_value=color)
        return slot.new_tensor(fill_pixel(self._stream, self._colors, output))


def _on(stream: torch.cuda.Stream | None) -> torch.cuda.StreamContext | nullcontext[None]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)
