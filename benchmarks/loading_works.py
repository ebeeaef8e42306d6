"""What is measured of loaders, on which files, who takes part in how many processes, and what is wanted."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from decoding_works import AtMost, Entrant, Times
from footage import COPIES, FRAMES

_SIZES = ("1080p", "360p")
_CEILING, _SESSIONS = "NVDEC's ceiling", (8, 14)
# Figures that processes add up; of others the largest counts, which is that of the last one to end.
_ADD_UP = ("clips/s", "steps/s", "frames")


class Team(NamedTuple):
    """An entrant in several processes that measure together.

    Attributes:
        entrant: all its functions take ``place``, see ``libraries.place``.
        processes: with a GPU each.
        all_cores: whether a process may use all cores of the machine; else it has those that a GPU's share is.
    """

    entrant: Entrant
    processes: int = 1
    all_cores: bool = False


class Work(NamedTuple):
    """One line of the comparison; see ``decoding_works.Work``.

    Attributes:
        title, unit, footage, copies, bars: likewise.
        teams: who takes part.
        rounds: at most; None for as many as are asked for.
        limit: seconds that one measurement may take, beyond ten times those of counting.
        frames: that must have come, or the measurement does not count; 0 where no number is set.
    """

    title: str
    unit: str
    footage: str
    copies: int
    teams: tuple[Team, ...]
    bars: tuple[Times | AtMost, ...]
    rounds: int | None = None
    limit: float = 120
    frames: int = 0


def together(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures of a team's processes as one."""
    joined = {name: (sum if name in _ADD_UP else max)(each[name] for each in figures) for name in figures[0]}
    if "clips/s" in joined and "steps/s" not in joined:
        joined["clips/s a process"] = statistics.mean(each["clips/s"] for each in figures)
    return joined


def works(arguments: argparse.Namespace, worlds: Sequence[int]) -> dict[str, Work]:
    """All of them; those of several GPUs with as many as each of ``worlds`` says."""
    decodes = ("nvdec", "auto") if arguments.device == "cuda" else ("cpu",)
    return {
        **{f"scaling-{decode}": _scaling(decode, worlds) for decode in decodes},
        "whole-videos": _whole_videos(arguments, worlds),
        **{f"training-{size}": _training(size, arguments) for size in _SIZES},
        **{f"decoding-loader-{size}": _decoding_loader(size) for size in _SIZES},
    }


def _label(name: str, world: int) -> str:
    return f"{name}, {world} GPU{'s' if world > 1 else ''}"


def _scaling(decode: str, worlds: Sequence[int]) -> Work:
    entrant = Entrant("", "ours_loading", "random_clips", ({"decode": decode},))
    return Work(
        f"random clips of 16 frames, 4 apart, GOP 250, 1080p H.264 to 224² float16, decode={decode!r}",
        "clips/s a process",
        "1080p-h264",
        COPIES,
        tuple(Team(entrant._replace(label=_label("ours", world)), world) for world in worlds),
        tuple(Times(_label("ours", world), (_label("ours", worlds[0]),), 0.95) for world in worlds[1:]),
    )


def _whole_videos(arguments: argparse.Namespace, worlds: Sequence[int]) -> Work:
    clip = {"sequence": arguments.sequence, "side": arguments.side}
    of_a_video = FRAMES // arguments.sequence
    # Groups of batches of 8 are planned at once, two videos each, which decode a GOP that they share once.
    ways: tuple[dict[str, Any], ...] = (
        {"batch": of_a_video, "prefetch": 17},
        {"batch": 8, "prefetch": arguments.ahead},
    )
    ours = Entrant("", "ours_loading", "whole_videos", tuple({**clip, **way} for way in ways))
    ceilings = [
        Entrant(label, "nvdec", "whole_videos", tuple({"threads": n, "endless": endless} for n in _SESSIONS))
        for label, endless in ((_CEILING, True), ("bare NVDEC", False))
    ]
    dali = Entrant("", "dali", "whole_videos", (clip,))
    orders = tuple({**clip, "order": order} for order in ("clips", "videos"))
    torch_ = Entrant("DataLoader + decord2", "decord", "whole_videos", orders)
    return Work(
        f"all frames of {arguments.videos} 1080p videos of {FRAMES} in sequences of {arguments.sequence}, batch 8, "
        + (f"to {arguments.side}² uint8" if arguments.side else "full size, uint8"),
        "s",
        "1080p-h264",
        arguments.videos,
        (
            *(Team(ours._replace(label=_label("ours", world)), world) for world in worlds),
            *(Team(each._replace(label=_label(each.label, world)), world) for each in ceilings for world in worlds),
            *(Team(dali._replace(label=_label("DALI", world)), world) for world in worlds),
            Team(torch_, all_cores=True),
        ),
        tuple(
            Times(_label("ours", world), others, goal)
            for world in worlds
            for others, goal in (
                ((torch_.label,), 1),
                ((_label("DALI", world),), 1),
                (tuple(_label(each.label, world) for each in ceilings), 0.95),
            )
        ),
        limit=500,
        frames=arguments.videos * of_a_video * arguments.sequence,
    )


def _training(size: str, arguments: argparse.Namespace) -> Work:
    # A clip of a large video takes longer to decode: a longer one, of which the network has more work, too, and of
    # which no more must be decoded since its frames lie closer together.
    length, stride = (32, 2) if size == "1080p" else (16, 4)
    if arguments.clip:
        length, stride = arguments.clip
    clip = {
        "network": arguments.network,
        "batch": arguments.batch,
        "length": length,
        "stride": stride,
        "side": arguments.crop,
        "channels_last": arguments.channels_last,
        "packets": arguments.packets,
    }
    labels = {"fixed": "one fixed batch", "loader": "the loader"}
    if arguments.device == "cuda":
        labels["fixed, NVDEC"] = "one fixed batch beside bare NVDEC"

    def team(label: str, batches: str, read_loss: bool) -> Team:
        way = {"batches": batches, "read_loss": read_loss, **clip}
        return Team(Entrant(label, "training", "training", (way,)))

    return Work(
        f"{arguments.network} in half precision, {arguments.batch} clips of {length} frames, {stride} apart, of "
        f"{arguments.crop}², {size} H.264: RandomResizedCrop, flip, RandAugment, Normalize",
        "steps/s",
        f"{size}-h264",
        COPIES,
        (
            *(team(label, batches, False) for batches, label in labels.items()),
            *(team(f"{label}, loss read in each step", batches, True) for batches, label in labels.items()),
            team("the loader alone", "loader alone", False),
        ),
        (
            Times("the loader", ("one fixed batch",), 0.98),
            Times("the loader, loss read in each step", ("one fixed batch, loss read in each step",), 0.98),
            # Else it is the loader that limits, and the lines above say nothing about waiting.
            Times("the loader alone", ("one fixed batch",), 1),
        ),
        limit=180,
    )


def _decoding_loader(size: str) -> Work:
    way = {"workers": 4}
    teams = tuple(
        Team(Entrant(name, "ours_loading", "same_clips", ({"loader": name, **way},)))
        for name in ("VideoLoader", "DecodingLoader")
    )
    return Work(
        f"the same random clips of 16 frames, 4 apart, {size} to 224² float16; a torch DataLoader of 4 workers",
        "clips/s",
        f"{size}-h264",
        COPIES,
        teams,
        (Times("DecodingLoader", ("VideoLoader",), 0.95),),
    )
