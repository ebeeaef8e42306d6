"""One file by all doors: streams and random clips, from open and new videos, with several threads, against libav."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import av
import av.error
import numpy as np
import torch

import videoloader as vl
from videoloader.convert import Geometry, OutputSpec
from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource
from videoloader.indexing.libav import open_video
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.decode_job import whole_clip
from videoloader.video import Clip

THREADS = (1, 2, 8)
# More would take the time of many cases; such a file is compared as far as that.
_MOST_PIXELS, _MOST_FRAMES = 60_000_000, 400
_LEAVING_MEMORY = ("ffv1", "hevc", "speedhq", "vp8")
# Frames that libav does not give and the index has: so many are looked at.
_MOST_EXTRA = 20


@dataclass
class Account:
    """What was compared, and what was found: of each kind of fault the first, and how often it came.

    Attributes:
        checked: frames compared.
        errors: of the library, by their first words; they are counted, not wrong.
        marked: frames that were said to be damaged.
        faults: kind -> the first of it.
        times: kind -> how many frames, or reads.
    """

    checked: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    marked: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    def found(self, kind: str, what: str, times: int = 1) -> None:
        self.faults.setdefault(kind, what)
        self.times[kind] += times

    def rename(self, kind: str, name: str) -> None:
        """Call a kind of fault something else."""
        self.faults[name], self.times[name] = self.faults.pop(kind), self.times.pop(kind)

    def refused(self, error: VideoLoaderError) -> None:
        self.errors[type(error).__name__] += 1

    def told(self) -> dict[str, object]:
        """As JSON holds it."""
        faults = {kind: f"{what} ({self.times[kind]} in all)" for kind, what in self.faults.items()}
        return {"checked": self.checked, "errors": dict(self.errors), "marked": self.marked, "faults": faults}


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


@dataclass(frozen=True)
class Request:
    """A read: frame numbers, from a video that is new or was used before, with so many threads."""

    frames: tuple[int, ...]
    threads: int
    new: bool

    def __str__(self) -> str:
        first = str(list(self.frames[:12]))[:-1] + (", …]" if len(self.frames) > 12 else "]")
        return f"read({first}) of {'a new' if self.new else 'the open'} Video, {self.threads} threads"


def hash_of(picture: torch.Tensor) -> bytes:
    return blake2b(picture.cpu().contiguous().numpy(), digest_size=12).digest()


def decode_truth(path: Path, video: vl.Video) -> Truth:
    """libav's frames, as this video's door would show them."""
    index = video.index
    geometry = Geometry((0, 0, *index.stream.display_size), index.stream.display_size)
    most = min(_MOST_PIXELS // (index.stream.width * index.stream.height) + 1, _MOST_FRAMES)
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
                        sink.put_frame(int(index.frame_packet[number]), frame)
                        shown.append(hash_of(pixels[0]))
    except (av.error.FFmpegError, VideoLoaderError, ValueError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    # It has the time of the first picture that refers to it.
    made_up = not starts and pts.count(pts[0]) > 1 if pts else False
    return Truth(shown, pts, corrupt, error, _undefined_frames(path), made_up, leaves_out and _hides_damage(path))


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
                if any(frame.is_corrupt for frame in frames):
                    return True
    except av.error.FFmpegError:
        return True
    return False


def _undefined_frames(path: Path) -> frozenset[int]:
    """Frames that depend on what was in a decoder's memory.

    Some decoders leave what the packets of a picture do not cover as it was, without a word: where slices of HEVC end
    early, being decoded by other parameter sets than they were coded with; where VP8's bits are used up. What was there
    is nothing, where all pictures are kept, a picture of a decode before, or a third one with many threads. Not all of
    them need differ in such decodes: with those goes all that lies between the same keyframes.
    """
    with open_video(FileSource(path)) as (_, stream):
        if stream.codec_context.codec.canonical_name not in _LEAVING_MEMORY:
            return frozenset()
    one, key = _plain_hashes(path)
    others = (_plain_hashes(path, keep=True)[0], _plain_hashes(path, threads=8)[0])
    gop = np.cumsum(key).tolist()
    touched = {
        number
        for other in others
        if len(other) == len(one)
        for number, a, b in zip(gop, one, other, strict=True)
        if a != b
    }
    return frozenset(number for number, each in enumerate(gop) if each in touched)


def _plain_hashes(path: Path, *, keep: bool = False, threads: int = 1) -> tuple[list[bytes], list[bool]]:
    """Hashes of frames, and which of them are keyframes; in new memory each, or in that of a decode of all before."""
    kept, hashes, key = [], [], []
    # The truth tells of what cannot be opened, or not be read to its end.
    with suppress(av.error.FFmpegError, VideoLoaderError), open_video(FileSource(path)) as (container, stream):
        decoder = stream.codec_context
        decoder.thread_count, decoder.thread_type = threads, "FRAME"
        packets = list(container.demux(stream))
        for _ in range(1 if keep else 2):
            hashes, key = [], []
            decoder.flush_buffers()
            try:
                for frame in chain.from_iterable(map(decoder.decode, packets)):
                    assert isinstance(frame, av.VideoFrame)
                    hashes.append(blake2b(frame.to_ndarray(), digest_size=12).digest())
                    key.append(bool(frame.key_frame))
                    kept += [frame] * keep
                    if len(hashes) * frame.width * frame.height > _MOST_PIXELS:
                        break
            except (av.error.FFmpegError, ValueError):
                pass  # what came before it is compared; the truth tells of the error
    return hashes, key


def compare_with_truth(video: vl.Video, truth: Truth, account: Account) -> None:
    """The index's count and times."""
    index = video.index
    if truth.error:
        return
    if len(index) != len(truth.pts):
        account.found("count", f"{len(index)} frames, of which libav gives {len(truth.pts)}")
        return
    known = [number for number, pts in enumerate(truth.pts) if pts is not None]
    theirs = [truth.pts[number] for number in known]
    ours = index.frame_pts[known].tolist()
    if index.container == "avi":  # which holds no presentation times: libav gives frames the numbers of packets
        theirs, ours = sorted(theirs), sorted(ours)  # type: ignore[type-var]
    if wrong := [number for number, one, other in zip(known, ours, theirs, strict=True) if one != other]:
        account.found("times", f"frame {wrong[0]} at {ours[known.index(wrong[0])]}", len(wrong))


def stream_hashes(path: Path, threads: int, most: int, account: Account) -> list[bytes] | None:
    """What ``stream()`` gives; None where it ends with an error."""
    torch.set_num_threads(threads)
    try:
        video = vl.Video(path, device="cpu")
        return [hash_of(frame) for frame in video.stream(slice(0, most))]
    except VideoLoaderError as error:
        account.refused(error)
        return None


def compare_stream(
    hashes: list[bytes] | None, video: vl.Video, truth: Truth, account: Account, *, damaged: bool
) -> None:
    """The pictures of ``stream()`` are libav's, but for those that ``read`` calls damaged.

    libav calls only those damaged that it conceals. With what, depends on all that it has in memory.
    """
    if hashes is None:
        if truth.sound:
            account.found("stream fails", "stream() ends with an error where libav decodes all")
        return
    if truth.error or len(hashes) != len(truth.shown):
        return
    account.checked += len(hashes)
    both = zip(hashes, truth.shown, truth.corrupt, strict=False)
    wrong = [number for number, (one, other, corrupt) in enumerate(both) if one != other and not corrupt]
    wrong = [number for number in wrong if number not in truth.undefined]
    if wrong and (damaged or not truth.sound):
        torch.set_num_threads(1)
        wrong = [number for number in wrong if not _tells_of_damage(video, number)]
    if wrong:
        same = sorted(hashes) == sorted(truth.shown)
        kind = "stream order" if same else "stream"
        account.found(kind, f"frames {wrong[:8]} are not libav's", len(wrong))


def _fails(video: vl.Video, frames: Sequence[int]) -> bool:
    try:
        if frames:
            video.read(frames)
    except VideoLoaderError:
        return True
    return False


def _tells_of_damage(video: vl.Video, frame: int) -> bool:
    try:
        return bool(video.read([frame]).corrupt.any())
    except VideoLoaderError:
        return True


def requests(rng: np.random.Generator, count: int, clips: int) -> Iterator[Request]:
    """Reads of every kind: strides from -7 to 7, neighbours, single frames, duplicates, lists."""
    for _ in range(clips):
        start = int(rng.integers(count))
        length = int(rng.integers(1, 7))
        stride = int(rng.integers(-7, 8))
        kinds = (
            [start],
            start + np.arange(length) * (stride or 1),
            start + np.arange(length) * stride,
            rng.integers(0, count, length),
            start + rng.integers(0, 12, length),
            np.repeat(start + rng.integers(0, 12, 3), 2),
            np.arange(count) if count < 100 else [0, count - 1],
        )
        chosen = np.clip(kinds[int(rng.integers(len(kinds)))], 0, count - 1)
        yield Request(tuple(int(each) for each in chosen), int(rng.choice(THREADS)), bool(rng.integers(2)))


class Reader:
    """Reads of one file, compared with what its frames are known to look like."""

    def __init__(
        self,
        path: Path,
        video: vl.Video,
        expected: Sequence[bytes] | None,
        account: Account,
        undefined: frozenset[int] = frozenset(),
    ) -> None:
        self._path, self._video = path, video
        self._expected, self._account = expected, account
        self.undefined = undefined

    def read(self, request: Request, *, sound: bool, damaged: bool = False) -> Clip | None:
        """One read.

        Args:
            request: which.
            sound: whether libav tells of no damage, so that it must not fail.
            damaged: whether there may be some all the same.
        """
        torch.set_num_threads(request.threads)
        try:
            video = vl.Video(self._path, device="cpu") if request.new else self._video
            clip = video.read(list(request.frames))
        except VideoLoaderError as error:
            self._account.refused(error)
            if sound:
                self._account.found("read fails", f"{request}: {error}")
            return None
        account = self._account
        account.checked += len(request.frames)
        account.marked += int(clip.corrupt.sum())
        if sound and not damaged and clip.corrupt.any():
            account.found("marked though sound", str(request), int(clip.corrupt.sum()))
        for number, picture, corrupt in zip(request.frames, clip.frames, clip.corrupt, strict=True):
            known = self._expected is not None and number < len(self._expected) and number not in self.undefined
            if known and not corrupt and hash_of(picture) != self._expected[number]:  # type: ignore[index]
                account.found("silent", f"{request}: frame {number} is another")
        return clip


def compare_file(path: Path, seed: int, clips: int, *, inside_gops: bool = False, damaged: bool = False) -> Account:
    """One file by all doors; see the module.

    Args:
        path: of the file.
        seed: of the reads.
        clips: how many of them.
        inside_gops: whether it is read whole first, since what stands inside GOPs is known only then.
        damaged: whether coded pictures may have come to harm. libav does not tell of all damage that the library marks.
    """
    account = Account()
    try:
        video = vl.Video(path, device="cpu")
    except VideoLoaderError as error:
        account.refused(error)
        account.found("refused", str(error).rpartition(": ")[2])
        return account
    truth = decode_truth(path, video)
    compare_with_truth(video, truth, account)
    most = min(len(truth.shown), len(video)) if not truth.error else min(len(video), _MOST_FRAMES)
    if not most:
        return account
    streams = {threads: stream_hashes(path, threads, most, account) for threads in THREADS}
    if inside_gops:
        torch.set_num_threads(1)
        try:
            for _ in video.stream(slice(0, most)):
                pass
        except VideoLoaderError as error:
            account.refused(error)
    compare_stream(streams[1], video, truth, account, damaged=damaged)
    fails = streams[1] is None or _fails(video, range(most, min(len(video), most + _MOST_EXTRA)))
    if fails and len(video) > len(truth.pts) and "count" in account.faults:
        # Frames that libav leaves out without a word are errors here, not other frames.
        account.rename("count", "count, told by errors")
    for threads in THREADS[1:]:
        if _without(streams[threads], truth.undefined) != _without(streams[1], truth.undefined):
            account.found("threads", f"stream() with {threads} threads is another than with one")
    expected = streams[1] or (truth.shown if not truth.error and len(truth.pts) == len(video) else None)
    reader = Reader(path, video, expected, account, truth.undefined)
    rng = np.random.default_rng(seed)
    asked = [Request(each.frames, each.threads, each.new and not inside_gops) for each in requests(rng, most, clips)]
    sound = truth.sound and streams[1] is not None
    for request in asked:
        reader.read(request, sound=sound, damaged=damaged)
    compare_repeats(reader, asked[:2], account)
    return account


def _without(hashes: list[bytes] | None, undefined: frozenset[int]) -> list[bytes] | None:
    return hashes and [each for number, each in enumerate(hashes) if number not in undefined]


def compare_repeats(reader: Reader, asked: Sequence[Request], account: Account) -> None:
    """Two reads of the same give the same, marks too."""
    for request in asked:
        one, other = (reader.read(request, sound=False) for _ in range(2))
        if (one is None) != (other is None):
            account.found("repeat", f"{request}: fails once and then not")
        elif one is not None and other is not None:
            defined = [place for place, number in enumerate(request.frames) if number not in reader.undefined]
            if not torch.equal(one.frames[defined], other.frames[defined]):
                account.found("repeat", f"{request}: other pixels the second time")
            elif (one.corrupt != other.corrupt).any():
                account.found("repeat", f"{request}: other marks the second time")


def compare_interleaved(paths: Sequence[Path], judged: Sequence[bool], seed: int, clips: int, threads: int) -> Account:
    """Several files read in turn in one thread: what one does to a decoder is not seen by another.

    Args:
        paths: of the files.
        judged: whether each is compared, or only read.
        seed: of the reads.
        clips: how many of them.
        threads: that PyTorch, and so a read, may use.
    """
    account = Account()
    readers, truths, counts = [], [], []
    for path, is_judged in zip(paths, judged, strict=True):
        try:
            video = vl.Video(path, device="cpu")
        except VideoLoaderError as error:
            account.refused(error)
            continue
        truth = decode_truth(path, video)
        if truth.error or len(truth.pts) != len(video):
            continue
        readers.append(Reader(path, video, truth.shown if is_judged else None, account, truth.undefined))
        truths.append(is_judged and truth.sound)
        counts.append(len(truth.shown))
    if not readers:
        return account
    rng = np.random.default_rng(seed)
    for _ in range(clips):
        number = int(rng.integers(len(readers)))
        for request in requests(rng, counts[number], 1):
            asked = Request(request.frames, threads, request.new)
            readers[number].read(asked, sound=truths[number])
    return account
