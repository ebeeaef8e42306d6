"""What libav makes of a file that lies: its pictures as a door shows them, and what it says of damage, or does not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import av
import av.error
import numpy as np
import torch

import videoloader as vl
from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource
from videoloader.indexing.decoder import put_beside
from videoloader.indexing.pictures import digest_of
from videoloader.indexing.video_stream import open_video
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.clip_slots import whole_clip

# More would take the time of many cases; such a file is compared as far as that.
_MOST_PIXELS, MOST_FRAMES = 60_000_000, 400
_LEAVING_MEMORY = ("ffv1", "h261", "h264", "hevc", "mpeg1video", "mpeg2video", "speedhq", "vp8")


@dataclass(frozen=True)
class Truth:
    """A full decode by libav: what each frame looks like at the door, its time, whether libav calls it damaged.

    Attributes:
        shown: hashes of RGB pictures, as far as the index has frames.
        pts: of all frames.
        corrupt: likewise.
        error: what ended the decode early.
        undefined: frames that hold what was in memory before, of which libav says nothing.
        made_up: whether the first frame is one that libav's decoder made up for a picture that is not there.
        hidden: whether libav calls pictures damaged that an edit list leaves out, and that others may refer to.
    """

    shown: list[bytes]
    pts: list[int | None]
    corrupt: list[bool]
    error: str
    undefined: frozenset[int]
    made_up: bool
    hidden: bool

    @property
    def sound(self) -> bool:
        return not self.error and not any(self.corrupt) and not self.undefined and not (self.made_up or self.hidden)


def hash_of(picture: torch.Tensor) -> bytes:
    return blake2b(picture.cpu().contiguous().numpy(), digest_size=12).digest()


def decode_truth(path: Path, video: vl.Video) -> Truth:
    """libav's frames, as this video's door would show them."""
    index = video.index
    geometry = Geometry((0, 0, *index.stream.display_size), index.stream.display_size)
    most = min(_MOST_PIXELS // (index.stream.width * index.stream.height) + 1, MOST_FRAMES)
    shown, pts, corrupt, error = [], [], [], ""
    starts = leaves_out = False
    try:
        with open_video(FileSource(path)) as (container, stream):
            frame = None
            for packet in container.demux(stream):
                leaves_out = leaves_out or packet.is_discard
                if not packet.size and packet.pts is not None:
                    # To libavcodec it is the end of the stream; to Theora the same picture once more.
                    again = stream.codec_context.name == "theora" and frame is not None
                    frames = [frame] if again else []
                    if frame is not None:
                        frame.pts = packet.pts
                else:
                    frames = packet.decode()
                for frame in frames:
                    assert isinstance(frame, av.VideoFrame)
                    number = len(pts)
                    starts = starts or bool(frame.key_frame and not pts)
                    pts.append(frame.pts)
                    corrupt.append(frame.is_corrupt)
                    if number < min(len(index), most):
                        pixels = torch.empty((1, 3, *geometry.size), dtype=torch.uint8)
                        sink = ClipSink(index, [whole_clip(np.array([number]), geometry, pixels)], OutputSpec(), None)
                        sink.write_frame(int(index.frame_packet[number]), frame)
                        shown.append(hash_of(pixels[0]))
    except (av.error.FFmpegError, VideoLoaderError, ValueError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    # It has the time of the first picture that refers to it.
    made_up = not starts and pts.count(pts[0]) > 1 if pts else False
    return Truth(shown, pts, corrupt, error, undefined_frames(path), made_up, leaves_out and _hides_damage(path))


def _hides_damage(path: Path) -> bool:
    """Whether pictures come out damaged where all that are decoded come out."""
    try:
        with open_video(FileSource(path)) as (container, stream):
            for packet in container.demux(stream):
                plain = av.Packet(packet.size)  # without the mark by which it is left out
                plain.update(bytes(packet))
                if packet.has_sidedata("new_extradata"):
                    plain.set_sidedata(packet.get_sidedata("new_extradata"))
                frames = stream.codec_context.decode(plain if packet.size else None)
                # A picture of no type stands for one that is referred to and is not there.
                if any(frame.is_corrupt or not frame.pict_type for frame in frames):
                    return True
    except (av.error.FFmpegError, VideoLoaderError):
        return True
    return False


def undefined_frames(path: Path) -> frozenset[int]:
    """Frames that depend on what was in a decoder's memory.

    Some decoders leave what the packets of a picture do not cover as it was, without a word: where slices of HEVC end
    early, being decoded by other parameter sets than they were coded with; where VP8's bits are used up; where groups
    of blocks of H.261 are damaged; where a slice of MPEG-1 or MPEG-2 is; where motion vectors are taken from a picture
    of H.264 that is missing. What was there is nothing in new memory, a picture of a decode before, or a third one with
    many threads, or where pictures of H.264 are given out late. Not all of them need differ in such decodes: with those
    goes all that lies between the same keyframes.
    """
    with open_video(FileSource(path)) as (_, stream):
        if stream.codec_context.codec.canonical_name not in _LEAVING_MEMORY:
            return frozenset()
    one, key = plain_hashes(path, passes=2)
    others = (
        plain_hashes(path, keep=True)[0],
        plain_hashes(path)[0],
        plain_hashes(path, threads=8, passes=2)[0],
        plain_hashes(path, late=True, passes=2)[0],
    )
    gop = np.cumsum(key).tolist()
    touched = {
        number
        for other in others
        if len(other) == len(one)
        for number, a, b in zip(gop, one, other, strict=True)
        if a != b
    }
    return frozenset(number for number, each in enumerate(gop) if each in touched)


def plain_hashes(
    path: Path, *, keep: bool = False, threads: int = 1, late: bool = False, passes: int = 1
) -> tuple[list[bytes], list[bool]]:
    """Hashes of frames, and which of them are keyframes; in new memory each, or in that of the passes before."""
    kept, hashes, key = [], [], []
    # The truth tells of what cannot be opened, or not be read to its end.
    with suppress(av.error.FFmpegError, VideoLoaderError), open_video(FileSource(path)) as (container, stream):
        decoder = stream.codec_context
        decoder.thread_count, decoder.thread_type = threads, "FRAME"
        if late and decoder.name == "h264":
            decoder.options = {"has_b_frames": "16"}
        packets = list(container.demux(stream))
        # Parameter sets that come inside the stream outlive a pass: the next one begins with the container's again.
        if decoder.extradata and not packets[0].has_sidedata("new_extradata"):
            put_beside(packets[0], "new_extradata", decoder.extradata)
        for _ in range(passes):
            hashes, key = [], []
            decoder.flush_buffers()
            try:
                for frame in chain.from_iterable(map(decoder.decode, packets)):
                    assert isinstance(frame, av.VideoFrame)
                    hashes.append(digest_of(frame))
                    key.append(bool(frame.key_frame))
                    kept += [frame] * keep
                    if len(hashes) * frame.width * frame.height > _MOST_PIXELS:
                        break
            except (av.error.FFmpegError, ValueError):
                pass  # what came before it is compared; the truth tells of the error
    return hashes, key
