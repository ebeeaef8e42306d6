"""From frame numbers to the pixels of one clip: plan, read, decode and convert, straight into its slot."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import av
import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import CudaSurface, Geometry, OutputSpec, color_spec, convert_frame, convert_surface
from videoloader.decoding import CpuDecoder, NvdecDecoder, why_not_nvdec
from videoloader.errors import DecodeError, UnsupportedError
from videoloader.indexing import ByteSource, FolderSource, VideoIndex
from videoloader.indexing.bitstream.random_access import is_random_access
from videoloader.packets import PacketBytes, read_packets
from videoloader.padding import CONSTANT_FRAME
from videoloader.planning import Run, plan_frames


@dataclass(frozen=True, eq=False)
class ClipReport:
    """What it took to make a clip.

    Attributes:
        packets: packets decoded.
        frames: different frames wanted.
        corrupt: bool[T], the decoder found the frame damaged. NVDEC does not tell: always False there.
        index: the video's index, better known now where the container called a packet a keyframe wrongly.
    """

    packets: int
    frames: int
    corrupt: npt.NDArray[np.bool_]
    index: VideoIndex


class _FalseKeyframeError(Exception):
    """The container calls a packet a keyframe, and it is none."""

    def __init__(self, packet: int) -> None:
        self.packet = packet


class _Slots:
    """Where the frames of one clip go, and which of them are there already."""

    def __init__(
        self,
        index: VideoIndex,
        frame_numbers: npt.NDArray[np.int64],
        geometry: Geometry,
        output: OutputSpec,
        slots: torch.Tensor,
        cuda_stream: torch.cuda.Stream | None,
    ) -> None:
        self._stream, self._colors = index.stream, color_spec(index.stream)
        self._geometry, self._output, self._cuda_stream = geometry, output, cuda_stream
        # At once: indexing a tensor lets go of Python's lock, which is dear once a frame with many threads.
        self._slots = slots.unbind(0)
        self._session_streams: set[torch.cuda.Stream] = set()
        self.corrupt = np.zeros(len(frame_numbers), np.bool_)
        self.done: set[int] = set()
        self.positions: dict[int, list[int]] = {}
        for position, frame in enumerate(frame_numbers.tolist()):
            if frame == CONSTANT_FRAME:
                self._fill_black(position)
            else:
                self.positions.setdefault(int(index.frame_packet[frame]), []).append(position)

    def put_frame(self, packet: int, frame: av.VideoFrame) -> None:
        """Convert a frame of the CPU engine."""
        first = self.positions[packet][0]
        self.corrupt[self.positions[packet]] = frame.is_corrupt
        if (frame.width, frame.height) != (self._stream.width, self._stream.height):
            # A picture that changes its size on the way is shown at the size of the video.
            frame = frame.reformat(width=self._stream.width, height=self._stream.height)
        slot = self._slots[first]
        target = torch.empty(slot.shape, dtype=slot.dtype, pin_memory=True) if slot.is_cuda else slot
        colors = color_spec(self._stream, frame)
        convert_frame(frame, colors, self._stream.rotation, self._stream.mirrored, self._geometry, self._output, target)
        if slot.is_cuda:
            with torch.cuda.stream(self._cuda_stream):
                slot.copy_(target, non_blocking=True)
        self._repeat(packet, self._cuda_stream)

    def put_surface(self, packet: int, surface: CudaSurface, stream: torch.cuda.Stream) -> None:
        """Convert a surface of NVDEC, on the stream of its session."""
        assert self._cuda_stream is not None
        if stream not in self._session_streams:
            self._session_streams.add(stream)
            stream.wait_stream(self._cuda_stream)
        convert_surface(
            surface,
            self._colors,
            self._stream.rotation,
            self._stream.mirrored,
            self._geometry,
            self._output,
            self._slots[self.positions[packet][0]],
            stream.cuda_stream,
        )
        self._repeat(packet, stream)

    def join_streams(self) -> None:
        """Let what comes next on the clip's stream wait for all sessions' streams."""
        for stream in self._session_streams:
            assert self._cuda_stream is not None
            self._cuda_stream.wait_stream(stream)
        self._session_streams.clear()

    def _repeat(self, packet: int, stream: torch.cuda.Stream | None) -> None:
        self.done.add(packet)
        first, *others = self.positions[packet]
        for position in others:
            with torch.cuda.stream(stream):
                self._slots[position].copy_(self._slots[first], non_blocking=True)

    def _fill_black(self, position: int) -> None:
        with torch.cuda.stream(self._cuda_stream):
            self._slots[position].zero_()
            if self._output.dtype.is_floating_point:
                _, shift = self._output.scale_shift()
                self._slots[position].add_(torch.from_numpy(shift).to(self._slots[position])[:, None, None])


class ClipReader:
    """Makes clips in one thread, with decoders that stay open from clip to clip.

    Args:
        device: where the clips are wanted. On a CUDA device NVDEC decodes what it can and the CPU the rest.

    Attributes:
        stream: the CUDA stream that the clips are made on; None on the CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: torch.cuda.Stream | None = None
        self._cpu = CpuDecoder()
        self._nvdec: NvdecDecoder | None = None
        self._left_to_cpu: set[str] = set()
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._nvdec = NvdecDecoder(gpu=device.index)

    def read(
        self,
        source: ByteSource,
        index: VideoIndex,
        frame_numbers: npt.NDArray[np.int64],
        geometry: Geometry,
        output: OutputSpec,
        slots: torch.Tensor,
    ) -> ClipReport:
        """Decode frames and write each into its slot.

        On a CUDA device the slots are complete when the work put on ``self.stream`` is.

        Args:
            source: of the video.
            index: of the video.
            frame_numbers: int64[T], in any order, repeats allowed; CONSTANT_FRAME gives a black frame.
            geometry: which part of the frames, and how large.
            output: the pixel values wanted.
            slots: [T, 3, H, W] of the output's size and dtype, with any strides, on ``device``.

        Raises:
            FrameRangeError: a frame number lies outside the video.
            DecodeError: a frame cannot be decoded.
            SourceError: the source cannot be read.
            UnsupportedError: there is no decoder for the codec, or no conversion of its colours.
        """
        real = frame_numbers[frame_numbers != CONSTANT_FRAME]
        index.check_range(real)
        on_device = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        try:
            with on_device:
                clip = _Slots(index, frame_numbers, geometry, output, slots, self.stream)
                try:
                    packets, index = self._decode(source, index, real, clip)
                finally:
                    clip.join_streams()
        except UnsupportedError as error:
            if error.source is None:  # the conversion knows pictures, not files
                raise UnsupportedError(str(error), index.source) from None
            raise
        except DecodeError as error:
            if error.packet is None or not isinstance(source, FolderSource):
                raise
            raise DecodeError(error.message, _file_of(source, index, error.packet), error.packet) from None
        if missing := sorted(clip.positions.keys() - clip.done):
            frame = int(frame_numbers[clip.positions[missing[0]][0]])
            message = f"frame {frame} (packet {missing[0]}) did not come out of the decoder"
            raise DecodeError(message, _file_of(source, index, missing[0]), missing[0])
        return ClipReport(packets, len(clip.positions), clip.corrupt, index)

    def _decode(
        self, source: ByteSource, index: VideoIndex, frames: npt.NDArray[np.int64], clip: _Slots
    ) -> tuple[int, VideoIndex]:
        """Decode until nothing is left to correct; (packets decoded, index as known now)."""
        packets = 0
        nvdec = self._nvdec_for(index)
        while True:
            try:
                for run in plan_frames(index, frames).runs:
                    data = _check_start(index, run, read_packets(source, index, run))
                    if nvdec is None:
                        packets += self._cpu.decode(index, data, clip.put_frame)
                    else:
                        packets += nvdec.decode(index, data, clip.put_surface)
                return packets, index
            except _FalseKeyframeError as false:
                index = index.without_keyframe(false.packet)
            except DecodeError as error:
                if nvdec is None:
                    raise
                # What NVDEC made of this clip is not to be trusted: the CPU does all of it again.
                self._leave_to_cpu(index, str(error))
                nvdec = None
                clip.join_streams()
                clip.done.clear()

    def _nvdec_for(self, index: VideoIndex) -> NvdecDecoder | None:
        if self._nvdec is None or index.source in self._left_to_cpu:
            return None
        if reason := why_not_nvdec(index, self.device.index):
            self._leave_to_cpu(index, reason)
            return None
        return self._nvdec

    def _leave_to_cpu(self, index: VideoIndex, reason: str) -> None:
        self._left_to_cpu.add(index.source)
        # Of images there may be a hundred thousand folders: with this name Python warns of them once.
        name = f"{index.stream.codec} images" if index.container == "images" else index.source
        warnings.warn(f"{name}: decoded on the CPU: {reason}", RuntimeWarning, stacklevel=2)


def _file_of(source: ByteSource, index: VideoIndex, packet: int) -> str:
    """The file that a packet lies in, for messages."""
    return source.file_at(int(index.packet_offset[packet])) if isinstance(source, FolderSource) else index.source


def _check_start(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """The packets, unless the first is no keyframe although the container says so."""
    for packet in packets:
        if packet.number == run.packets[0] and index.packet_key[packet.number]:
            config = index.stream.codec_configs[index.packet_config[packet.number]]
            if not is_random_access(index.stream.codec, config, packet.data):
                raise _FalseKeyframeError(packet.number)
        yield packet


_thread = threading.local()


def reader_of_thread(device: torch.device) -> ClipReader:
    """The calling thread's own reader for a device, made once."""
    readers: dict[torch.device, ClipReader] = _thread.__dict__.setdefault("readers", {})
    if device not in readers:
        readers[device] = ClipReader(device)
    return readers[device]
