"""From frame numbers to the pixels of one clip: plan, read, decode and convert, straight into its slot."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert import ColorSpec, Geometry, OutputSpec, color_spec, convert_frame, convert_surface
from videoloader.decoding import CpuDecoder, NvdecDecoder, why_not_nvdec
from videoloader.errors import DecodeError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.random_access import is_random_access
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


class _FalseKeyframe(Exception):
    def __init__(self, packet: int) -> None:
        self.packet = packet


class ClipReader:
    """Makes clips in one thread, with decoders that stay open from clip to clip.

    Args:
        device: where the clips are wanted. On a CUDA device NVDEC decodes what it can and the CPU the rest.
        threads: threads of one CPU decoder; more than one shortens the wait for a single clip.
    """

    def __init__(self, device: torch.device, *, threads: int = 1) -> None:
        self.device = device
        self._cpu = CpuDecoder(threads=threads)
        self.stream: torch.cuda.Stream | None = None
        self._nvdec: NvdecDecoder | None = None
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._nvdec = NvdecDecoder(gpu=device.index, cuda_stream=self.stream.cuda_stream)
        self._left_to_cpu: set[str] = set()

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
            DecodeError: a frame cannot be decoded.
            SourceError: the source cannot be read.
        """
        black = frame_numbers == CONSTANT_FRAME
        if black.any():
            self._fill_black(slots, np.flatnonzero(black), output)
        positions: dict[int, list[int]] = {}
        index.check_range(frame_numbers[~black])
        for position in np.flatnonzero(~black).tolist():
            positions.setdefault(int(index.frame_packet[frame_numbers[position]]), []).append(position)
        corrupt = np.zeros(len(frame_numbers), np.bool_)
        done: set[int] = set()
        stream = index.stream

        def convert_cpu(packet: int, frame: Any) -> None:
            first, *others = positions[packet]
            target = slots[first]
            if self.device.type == "cpu":
                convert_frame(
                    frame, color_spec(stream, frame), stream.rotation, stream.mirrored, geometry, output, target
                )
            else:
                host = torch.empty(target.shape, dtype=target.dtype, pin_memory=True)
                convert_frame(
                    frame, color_spec(stream, frame), stream.rotation, stream.mirrored, geometry, output, host
                )
                with torch.cuda.stream(self.stream):
                    target.copy_(host, non_blocking=True)
            corrupt[positions[packet]] = frame.is_corrupt
            finish(packet, target, others)

        def convert_gpu(packet: int, surface: Any) -> None:
            first, *others = positions[packet]
            assert self.stream is not None
            convert_surface(
                surface,
                colors(),
                stream.rotation,
                stream.mirrored,
                geometry,
                output,
                slots[first],
                self.stream.cuda_stream,
            )
            finish(packet, slots[first], others)

        def finish(packet: int, slot: torch.Tensor, others: list[int]) -> None:
            with torch.cuda.stream(self.stream):
                for position in others:
                    slots[position].copy_(slot, non_blocking=True)
            done.add(packet)

        def colors() -> ColorSpec:
            return color_spec(stream)

        packets = 0
        numbers = frame_numbers[~black]
        wanted = len(positions)
        use_nvdec = self._takes_nvdec(index)
        while True:
            remaining = numbers[~np.isin(index.frame_packet[numbers], list(done))] if done else numbers
            try:
                for run in plan_frames(index, remaining).runs:
                    packets += self._decode(source, index, run, use_nvdec, convert_gpu if use_nvdec else convert_cpu)
            except _FalseKeyframe as found:
                index = index.without_keyframe(found.packet)
                continue
            except DecodeError as error:
                if not use_nvdec:
                    raise
                # What NVDEC did of this clip is not to be trusted: it goes to the CPU as a whole.
                self._leave_to_cpu(index, str(error))
                use_nvdec = False
                done.clear()
                continue
            break
        missing = sorted(positions.keys() - done)
        if missing:
            frame = int(frame_numbers[positions[missing[0]][0]])
            raise DecodeError(f"frame {frame} (packet {missing[0]}) did not come out of the decoder", index.source)
        return ClipReport(packets, wanted, corrupt, index)

    def _takes_nvdec(self, index: VideoIndex) -> bool:
        if self._nvdec is None or index.source in self._left_to_cpu:
            return False
        reason = why_not_nvdec(index, self.device.index)
        if reason:
            self._leave_to_cpu(index, reason)
        return not reason

    def _leave_to_cpu(self, index: VideoIndex, reason: str) -> None:
        self._left_to_cpu.add(index.source)
        warnings.warn(f"{index.source}: decoded on the CPU: {reason}", RuntimeWarning, stacklevel=2)

    def _decode(self, source: ByteSource, index: VideoIndex, run: Run, use_nvdec: bool, sink: Any) -> int:
        packets = _check_start(index, run, read_packets(source, index, run))
        if use_nvdec:
            assert self._nvdec is not None
            return self._nvdec.decode(index, packets, sink)
        return self._cpu.decode(index, packets, sink)

    def _fill_black(self, slots: torch.Tensor, positions: npt.NDArray[np.int64], output: OutputSpec) -> None:
        _, shift = output.scale_shift()
        with torch.cuda.stream(self.stream):
            value = torch.from_numpy(shift).to(slots.dtype).to(slots.device) if slots.dtype.is_floating_point else None
            for position in positions.tolist():
                slots[position] = 0 if value is None else value[:, None, None]


def _check_start(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """The packets, unless the first is no keyframe although the container says so."""
    for packet in packets:
        if packet.number == run.packets[0] and index.packet_key[packet.number]:
            config = index.stream.codec_configs[index.packet_config[packet.number]]
            if not is_random_access(index.stream.codec, config, packet.data):
                raise _FalseKeyframe(packet.number)
        yield packet


_thread = threading.local()


def reader_of_thread(device: torch.device) -> ClipReader:
    """The calling thread's own reader for a device, made once."""
    readers: dict[torch.device, ClipReader] = _thread.__dict__.setdefault("readers", {})
    if device not in readers:
        readers[device] = ClipReader(device)
    return readers[device]
