"""One file by all doors: streams, clips of open and new videos, loaders, with several threads, against libav."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from soak.libav_truth import MOST_FRAMES, Truth, decode_truth, hash_of

import videoloader as vl
from videoloader.errors import VideoLoaderError
from videoloader.video import Clip

THREADS = (1, 2, 8)
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
class Request:
    """A read: frame numbers, from a video that is new or was used before, with so many threads."""

    frames: tuple[int, ...]
    threads: int
    new: bool

    def __str__(self) -> str:
        first = str(list(self.frames[:12]))[:-1] + (", …]" if len(self.frames) > 12 else "]")
        return f"read({first}) of {'a new' if self.new else 'the open'} Video, {self.threads} threads"


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
        wrong = [number for number in wrong if not tells_of_damage(video, number)]
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


def tells_of_damage(video: vl.Video, frame: int) -> bool:
    """Whether a video calls a frame damaged, or cannot read it."""
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
        if sound and not damaged and clip.corrupt.any():
            self._account.found("marked though sound", str(request), int(clip.corrupt.sum()))
        self._compare(str(request), request.frames, clip.frames, clip.corrupt)
        return clip

    def _compare(self, name: str, numbers: Sequence[int], frames: torch.Tensor, marks: npt.NDArray[np.bool_]) -> None:
        """Frames are what they are known to look like, or marked."""
        self._account.checked += len(numbers)
        self._account.marked += int(marks.sum())
        for number, picture, corrupt in zip(numbers, frames, marks, strict=True):
            known = self._expected is not None and number < len(self._expected) and number not in self.undefined
            if known and not corrupt and hash_of(picture) != self._expected[number]:  # type: ignore[index]
                self._account.found("silent", f"{name}: frame {number} is another")

    def read_by_slices(self, rng: np.random.Generator, most: int, *, sound: bool) -> None:
        """A few slices that follow one another, which one decoder makes; their marks are those of other reads."""
        threads, size = int(rng.choice(THREADS)), int(rng.integers(1, 9))
        torch.set_num_threads(threads)
        begin = int(rng.integers(max(most - 4 * size, 1)))
        name = f"slices of {size} from {begin} on, {threads} threads"
        try:
            video = vl.Video(self._path, device="cpu")
            for start in range(begin, min(begin + 5 * size, most), size):
                numbers = range(start, min(start + size, most))
                frames = video[numbers.start : numbers.stop]
                marks = vl.Video(self._path, device="cpu").read(numbers).corrupt
                self._compare(name, numbers, frames, marks)
        except VideoLoaderError as error:
            self._account.refused(error)
            if sound:
                self._account.found("slices fail", f"{name}: {error}")

    def read_by_loader(self, rng: np.random.Generator, most: int, *, sound: bool) -> None:
        """All frames in order through a loader, whose jobs decode side by side.

        Args:
            rng: says how long clips and batches are, and how many threads decode.
            most: about so many frames.
            sound: as in ``read``.
        """
        torch.set_num_threads(1)
        length, batch_size = min(int(rng.integers(1, 7)), len(self._video)), int(rng.integers(1, 12))
        workers = int(rng.choice((0, *THREADS)))
        name = f"a loader of {length} frames, {batch_size} clips, {workers} threads"
        account = self._account
        try:
            loader = vl.VideoLoader(
                vl.VideoDataset.from_paths([self._path]),
                vl.EveryWindow(length),
                batch_size=batch_size,
                device="cpu",
                num_workers=workers,
                num_processes=0,
                collate="list",
                layout="TCHW",
                last_batch="partial",
                on_error="skip",
            )
            with loader:
                for batch in islice(loader, -(-most // (length * batch_size))):
                    for frames, numbers, corrupt in zip(batch.frames, batch.frame_numbers, batch.corrupt, strict=True):
                        self._compare(name, numbers.tolist(), frames, corrupt)
                if sound and loader.stats().skipped:
                    account.found("loader skips", name, loader.stats().skipped)
        except VideoLoaderError as error:
            account.refused(error)
            if sound:
                account.found("loader fails", f"{name}: {error}")


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
    most = min(len(truth.shown), len(video)) if not truth.error else min(len(video), MOST_FRAMES)
    if not most:
        _take_as_told(video, truth, most, account)
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
    _take_as_told(video, truth, most, account, fails=streams[1] is None)
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
    if not inside_gops:  # it opens the video anew for each slice
        reader.read_by_slices(rng, most, sound=sound)
    # Frames that libav leaves out may be errors; see ``_take_as_told``.
    reader.read_by_loader(rng, most, sound=sound and len(video) <= len(truth.pts))
    return account


def _take_as_told(video: vl.Video, truth: Truth, most: int, account: Account, *, fails: bool = False) -> None:
    """Rename the fault of too many frames where those that libav leaves out without a word are errors, not others."""
    extra = range(most, min(len(video), most + _MOST_EXTRA))
    if len(video) > len(truth.pts) and "count" in account.faults and (fails or _fails(video, extra)):
        account.rename("count", "count, told by errors")


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
