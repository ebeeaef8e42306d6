"""Reports of ``verify``: for each file, and for all files together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from videoloader.errors import ConfigurationError, counted, printable
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_integer

# Maximum number of frame ranges that are printed.
_LISTED = 8
_MOST_SPACES = 100  # of an indent

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Fault:
    """A fault of a file, or of its index.

    Attributes:
        kind: str. ``"unreadable"``: the file cannot be opened as a video; ``"decode"``: the sequential decode ends with
            an error; ``"count"``: the number of frames differs from the index; ``"times"``: frame times differ from the
            index; ``"checksum"``: a stored member of a zip archive does not have the checksum that the archive gives;
            ``"pictures"``: a read gives pictures that differ from the sequential decode, and does not mark them as
            corrupt; ``"read"``: a read ends with an error.
        message: str. A description of the fault.
        frames: ranges. (first, last) of each affected range of frames.
    """

    kind: str
    message: str
    frames: Ranges = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f": frames {told_ranges(self.frames)}" if self.frames else "")


@tells_of_arguments
@dataclass(frozen=True)
class FileReport:
    """The result of verifying one file. It is true only if the file is ``ok``.

    Attributes:
        source: str. The name of the video.
        codec: str. The codec's name in the index; ``""`` if the file could not be indexed.
        container: str. The container's name in the index; ``""`` if the file could not be indexed.
        frames: int. The number of frames in the index.
        decoded: int. The number of frames that a sequential decode by libavcodec gives.
        keyframes: int. The number of packets at which decoding can start.
        false_keyframes: tuple of int. The packets that the container wrongly marks as keyframes. Reads there start at
            an earlier packet.
        damaged: ranges. (first, last) of each range of frames that the decoder marks as damaged.
        faults: tuple of ``Fault``. The faults found.
        seconds: float. The time that verification took.
    """

    source: str
    codec: str = ""
    container: str = ""
    frames: int = 0
    decoded: int = 0
    keyframes: int = 0
    false_keyframes: tuple[int, ...] = ()
    damaged: Ranges = ()
    faults: tuple[Fault, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every frame is present and undamaged, has the right time, and is the same however it is read."""
        return not self.faults and not self.damaged

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can hold."""
        return {"ok": self.ok, **asdict(self)}

    def to_json(self, indent: int | None = None) -> str:
        return _as_json(self.to_dict(), indent)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> FileReport:
        """Make a report from the result of ``to_dict``, also after JSON. Other keys are ignored.

        Raises:
            ConfigurationError: the mapping is no such result.
        """
        try:
            plain = {field.name: told[field.name] for field in fields(cls)}
            faults = [Fault(each["kind"], each["message"], _as_ranges(each["frames"])) for each in told["faults"]]
            arrays = {"faults": tuple(faults), "damaged": _as_ranges(told["damaged"])}
            return cls(**{**plain, **arrays, "false_keyframes": tuple(told["false_keyframes"])})
        except (LookupError, TypeError, ValueError) as error:
            raise ConfigurationError(f"this is no result of to_dict: {error!r}") from None

    def __str__(self) -> str:
        counts = f"{counted(self.frames, 'frame')}, {counted(self.keyframes, 'keyframe')}"
        what = f"{counts}, {self.codec} in {self.container}"
        lines = [f"{self.source}: {'ok' if self.ok else 'NOT OK'}: {what if self.codec else 'not read'}"]
        lines += [f"  {fault}" for fault in self.faults]
        if self.damaged:
            lines.append(f"  damaged: frames {told_ranges(self.damaged)}")
        if self.false_keyframes:
            lines.append(f"  {counted(len(self.false_keyframes), 'false keyframe')} claimed by the container")
        return printable("\n".join(lines))


@tells_of_arguments
@dataclass(frozen=True)
class VerifyReport:
    """The results of verifying several files; ``str`` lists those that are not ok.

    It is true only if all files are ``ok``: ``if not verify(paths): …``.

    Attributes:
        files: tuple of ``FileReport``. The report of each file, in the order given.
    """

    files: tuple[FileReport, ...]

    @property
    def ok(self) -> bool:
        """Whether all files are ok."""
        return all(file.ok for file in self.files)

    def __bool__(self) -> bool:
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can hold."""
        return {"ok": self.ok, "files": [file.to_dict() for file in self.files]}

    def to_json(self, indent: int | None = None) -> str:
        return _as_json(self.to_dict(), indent)

    def __str__(self) -> str:
        if len(self.files) == 1:
            return str(self.files[0])
        wrong = [file for file in self.files if not file.ok]
        frames = counted(sum(file.frames for file in self.files), "frame")
        return "\n".join([f"{counted(len(self.files), 'video')}, {frames}: {len(wrong)} not ok", *map(str, wrong)])


def _as_json(told: object, indent: int | None) -> str:
    if indent is not None:
        check_integer("to_json's indent", indent, 0, _MOST_SPACES)
    return json.dumps(told, indent=indent)


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """Return the (first, last) of each run of consecutive numbers."""
    unique = np.unique(np.fromiter(numbers, np.int64))
    runs = np.split(unique, np.flatnonzero(np.diff(unique) > 1) + 1)
    return tuple((int(run[0]), int(run[-1])) for run in runs if len(run))


def _as_ranges(pairs: Iterable[Iterable[int]]) -> Ranges:
    return tuple((int(first), int(last)) for first, last in pairs)


def told_ranges(ranges: Ranges) -> str:
    """Format ranges for users: "3, 5-9"."""
    told = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_LISTED]]
    count = sum(last - first + 1 for first, last in ranges)
    return ", ".join(told) + (f", … ({count} in all)" if len(ranges) > _LISTED else "")
