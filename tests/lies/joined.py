"""Files of several encodes one after the other, whose parameter sets or headers differ.

``FAMILIES`` holds kinds of encodes that share all but what their parameter sets say. ``joined`` puts members of one
family into one file; the members alone are its neighbours, with the same configuration record as the joined file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from mp4_writing import box, table
from sample_videos import Recipe, write_video

from lies.bases import SIZE, picture
from lies.mp4_boxes import TABLES, boxes, change_track, child, with_child
from lies.parameter_sets import joined_units, sets_of
from lies.remuxed import Packet, Packets, demuxed, muxed
from videoloader.indexing.bitstream.nal import nal_length_size


def _h264(settings: str) -> Recipe:
    options = {"preset": "veryfast", "bf": "2", "g": "8"}
    return Recipe("mp4", "libx264", options | {"x264-params": f"scenecut=0:threads=1:{settings}"}, size=SIZE, frames=24)


def _hevc(settings: str) -> Recipe:
    common = "log-level=none:pools=1:frame-threads=1:scenecut=0:keyint=8:min-keyint=8:bframes=2"
    return Recipe(
        "mp4", "libx265", {"preset": "ultrafast", "x265-params": f"{common}:{settings}"}, size=SIZE, frames=24
    )


def _other(encoder: str, suffix: str, options: dict[str, str], size: tuple[int, int] = SIZE) -> Recipe:
    return Recipe(suffix, encoder, {"g": "8", **options}, size=size, frames=24)


_VP = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0", "b": "200k"}
_VP8 = _VP | {"deadline": "good", "cpu-used": "5"}
FAMILIES = {
    # Members differ in the PPS alone, in the SPS alone, in both, or in size.
    "h264_pps": [_h264("qp=20"), _h264("qp=34"), _h264("qp=28:weightp=2"), _h264("qp=24:chroma-qp-offset=5")],
    "h264_transform": [_h264("8x8dct=1"), _h264("8x8dct=0"), _h264("8x8dct=1:cabac=0"), _h264("cabac=0:8x8dct=0")],
    "h264_sps": [_h264("ref=1"), _h264("ref=5:b-pyramid=normal"), _h264("ref=1:bframes=0"), _h264("interlaced=1")],
    "h264_size": [_h264("ref=2"), replace(_h264("ref=2"), size=(96, 128)), replace(_h264("ref=2"), size=(120, 90))],
    "h264_open": [_h264("open-gop=1:qp=22"), _h264("open-gop=1:qp=32"), _h264("open-gop=0:qp=26:weightp=0")],
    "hevc_pps": [_hevc("qp=20"), _hevc("qp=34"), _hevc("qp=28:signhide=0"), _hevc("cbqpoffs=4:crqpoffs=-3")],
    "hevc_sps": [_hevc("sao=1"), _hevc("sao=0:amp=1:rect=1"), _hevc("ref=4:bframes=3"), _hevc("min-cu-size=16")],
    "hevc_size": [_hevc("ref=1"), replace(_hevc("ref=1"), size=(96, 128)), replace(_hevc("ref=1"), size=(120, 90))],
    "hevc_closed": [_hevc("open-gop=0:qp=22"), _hevc("open-gop=0:qp=33:no-deblock=1"), _hevc("open-gop=0:sao=0")],
    "mpeg2": [
        _other("mpeg2video", "m2v", {"b": "2M", "bf": "2"}),
        _other("mpeg2video", "m2v", {"b": "1M", "intra_matrix": ",".join(["16"] * 64)}),
        _other("mpeg2video", "m2v", {"b": "2M", "alternate_scan": "1", "intra_vlc": "1"}),
    ],
    "mpeg2_size": [
        _other("mpeg2video", "m2v", {"b": "2M"}),
        _other("mpeg2video", "m2v", {"b": "2M"}, size=(96, 128)),
    ],
    "mpeg4": [
        _other("mpeg4", "m4v", {"b": "2M"}),
        _other("mpeg4", "m4v", {"b": "1M", "flags": "+qpel"}),
        _other("mpeg4", "m4v", {"b": "1M", "mpeg_quant": "1"}),
    ],
    "vp8_size": [_other("libvpx", "webm", _VP8), _other("libvpx", "webm", _VP8, size=(96, 128))],
    "vp9_size": [_other("libvpx-vp9", "webm", _VP), _other("libvpx-vp9", "webm", _VP, size=(96, 128))],
    "av1": [
        _other("libsvtav1", "mkv", {"preset": "12", "svtav1-params": "lp=1"}),
        _other("libsvtav1", "mkv", {"preset": "9", "svtav1-params": "lp=1:enable-restoration=0:film-grain=8"}),
        _other("libsvtav1", "mkv", {"preset": "12", "svtav1-params": "lp=1"}, size=(96, 128)),
    ],
}  # fmt: skip
# How the second and later encodes bring their parameter sets: once, before each keyframe, one packet too late, in
# sample descriptions of their own; or whole files are put one after the other.
WAYS = ("once", "always", "late", "descriptions", "files")
_CONTAINERS = {"h264": ("mp4", "mkv", "flv", "ts", "h264"), "hevc": ("mp4", "mkv", "ts", "hevc")}
_OTHERS = {
    "mpeg2video": ("ts", "mpeg2video", "ps", "mkv"), "mpeg4": ("mp4", "avi", "m4v", "mkv"), "vp8": ("mkv", "ivf"),
    "vp9": ("mkv", "mp4", "ivf"), "av1": ("mkv", "mp4", "obu"),
}  # fmt: skip


def write_member(folder: Path, family: str, number: int) -> Path:
    """The path of a member of a family, encoded where it is not in the folder yet."""
    recipe = FAMILIES[family][number]
    path = folder / f"{family}_{number}.{recipe.suffix}"
    if not path.is_file():
        unfinished = folder / f".{path.stem}_{os.getpid()}.{recipe.suffix}"

        def shifted(frame: int, width: int, height: int) -> np.ndarray:
            return picture(frame + 100 * number, width, height)

        write_video(unfinished, recipe, shifted).rename(path)
    return path


def joined(folder: Path, family: str, members: Sequence[int], way: str, container: str) -> bytes | None:
    """Members of a family one after the other; None where the container or the codec has no such way.

    Args:
        folder: that keeps the members.
        family: one of FAMILIES.
        members: their numbers, any of them several times.
        way: one of WAYS; for codecs without parameter sets of their own there is only "once".
        container: one that ``containers_of`` names.
    """
    parts = [demuxed(write_member(folder, family, number).read_bytes()) for number in members]
    found = [part for part in parts if part is not None]
    assert len(found) == len(parts), family
    if way == "files":
        return _files_in_a_row(found, container)
    if found[0].codec not in ("h264", "hevc"):
        return _in_a_row(found, container) if way == "once" else None
    if way == "descriptions":
        return _with_descriptions(found) if container == "mp4" else None
    ready = [found[0], *(_with_sets(part, way) for part in found[1:])]
    return _in_a_row(ready, container)


def containers_of(family: str) -> tuple[str, ...]:
    codec = family.split("_")[0]
    return _CONTAINERS.get(codec) or _OTHERS["mpeg2video" if codec == "mpeg2" else codec]


def _with_sets(part: Packets, way: str) -> Packets:
    """The part's parameter sets put into its packets."""
    keys = [number for number, each in enumerate(part.packets) if each.key]
    places = {"once": keys[:1], "always": keys, "late": [keys[0] + 1]}[way]
    sets = joined_units(sets_of(part), nal_length_size(part.codec, part.config))
    packets = [
        replace(each, data=sets + each.data) if number in places else each for number, each in enumerate(part.packets)
    ]
    return replace(part, packets=packets)


def _in_a_row(parts: Sequence[Packets], container: str) -> bytes | None:
    return muxed(replace(parts[0], packets=_shifted(parts)), container)


def _shifted(parts: Sequence[Packets]) -> list[Packet]:
    """All packets, each part's times behind those of the part before; raw streams say none."""
    packets: list[Packet] = []
    for part in parts:
        times = [each.dts for each in part.packets if each.dts is not None]
        step = times[1] - times[0] if len(times) > 1 else 1
        later = len(packets) * step - min(times, default=0)
        packets += [
            replace(
                each,
                pts=None if each.pts is None else each.pts + later,
                dts=None if each.dts is None else each.dts + later,
            )
            for each in part.packets
        ]
    return packets


# Formats in which one file may follow another.
_ROWS = ("ts", "ps", "flv", "h264", "hevc", "mpeg2video", "m4v", "obu")


def _files_in_a_row(parts: Sequence[Packets], container: str) -> bytes | None:
    """A file of each part, one behind the other: times start anew. FLV files lose their headers, but not what describes
    their streams."""
    files = [muxed(part, container) for part in parts]
    if container not in _ROWS or None in files:
        return None
    known = [each for each in files if each is not None]
    headers = [0, *(13 if container == "flv" else 0 for _ in known[1:])]
    return b"".join(each[header:] for each, header in zip(known, headers, strict=True))


def _with_descriptions(parts: Sequence[Packets]) -> bytes | None:
    """An mp4 with a sample description for each part that has one of its own."""
    pattern = muxed(parts[0], "mp4")
    if pattern is None:
        return None
    entries: list[bytes] = []
    for part in parts:
        entry = _entry_of(part)
        if entry is None:
            return None
        entries.append(entry)
    distinct = list(dict.fromkeys(entries))
    packets = _shifted(parts)
    numbers = [distinct.index(entry) + 1 for entry, part in zip(entries, parts, strict=True) for _ in part.packets]
    payload = b"".join(each.data for each in packets)
    start = len(pattern) + 8
    offsets = np.cumsum([start, *(len(each.data) for each in packets)])[:-1].tolist()
    durations = np.diff([each.dts or 0 for each in packets], append=2 * (packets[-1].dts or 0) - (packets[-2].dts or 0))
    tables = {
        b"stsd": (len(distinct).to_bytes(8, "big")) + b"".join(distinct),
        b"stts": table(b"stts", "II", [(1, int(each)) for each in durations])[8:],
        b"ctts": table(b"ctts", "Ii", [(1, (each.pts or 0) - (each.dts or 0)) for each in packets], version=1)[8:],
        b"stss": table(b"stss", "I", [(n + 1,) for n, each in enumerate(packets) if each.key])[8:],
        b"stsc": table(b"stsc", "III", [(n + 1, 1, entry) for n, entry in enumerate(numbers)])[8:],
        b"stsz": bytes(8) + table(b"stsz", "I", [(len(each.data),) for each in packets])[12:],
        b"stco": table(b"stco", "I", [(each,) for each in offsets])[8:],
    }

    def change(track: bytes) -> bytes:
        for kind, each in tables.items():
            track = with_child(track, (*TABLES, kind), each)
        return with_child(with_child(track, (*TABLES, b"sdtp"), None), (b"edts",), None)

    # Behind the first part's own file, whose moov becomes free space and whose samples nobody refers to.
    return change_track(pattern + box(b"mdat", payload), change)


def _entry_of(part: Packets) -> bytes | None:
    """The sample entry that libavformat writes for a part."""
    data = muxed(part, "mp4")
    entries: list[bytes] = []

    def look(track: bytes) -> None:
        description = child(track, *TABLES, b"stsd")
        if description is not None:
            entries.extend(description[at:stop] for _, at, _, stop in boxes(description, 8))

    if data is not None:
        change_track(data, look)
    return entries[0] if entries else None
