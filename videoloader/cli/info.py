"""``videoloader info``: shows the facts of a video, or of the videos in a store."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from rich.table import Column, Table

from videoloader.cli.pictures_coded import CodedPictures, coded_pictures
from videoloader.cli.sources import Json, is_store
from videoloader.cli.store_table import print_store, store_facts
from videoloader.cli.terminal import errors_told, out, plain, print_json, print_line
from videoloader.cli.video_facts import video_facts
from videoloader.errors import counted
from videoloader.indexing import IndexStore, VideoIndex, build_index, open_source
from videoloader.sampling.exact_time import told_span
from videoloader.sampling.sampled_video import AllFrames

# Letters of the strip in JSON, which has no terminal width.
_LETTERS = 200


def info(
    file: Annotated[str, typer.Argument(help="A video, a URL, a member of an archive, or an index store.")],
    order: Annotated[
        Literal["display", "decode"],
        typer.Option(help="Order of the pictures in the strip that shows the GOP structure."),
    ] = "display",
    pictures: Annotated[
        int | None,
        typer.Option(min=1, help="Number of pictures in that strip. Default: the width of the terminal; 200 in JSON."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what is known about a video, or about the videos in an index store."""
    with errors_told():
        if is_store(file):
            store = IndexStore(file)
            if json:
                print_json(store_facts(store))
            else:
                print_store(store)
            return
        source = open_source(file)
        index = build_index(source)
        facts = video_facts(source, index)
        strip = coded_pictures(source, index, pictures or (_LETTERS if json else out.width), order == "decode")
        if json:
            print_json({**facts, "pictures": {"order": order, **strip._asdict()}})
        else:
            _print_video(index, facts)
            _print_strip(strip, order)
            _print_costs(facts["cost"])


def _print_video(index: VideoIndex, facts: dict[str, Any]) -> None:
    table = Table("", plain(index.source), show_header=True)
    for name, value in {
        "codec": f"{facts['codec']} in {facts['container']}",
        "streams": ", ".join(map(_told_stream, facts["streams"])) or "images",
        "picture": _told_picture(facts),
        "colour": _told_color(facts["color"]),
        "frames": f"{facts['frames']} in {facts['duration_s']:.3f} s, {facts['fps']:.3f} a second"
        + (" (variable rate)" if facts["is_vfr"] else ""),
        "shown": told_span(AllFrames(index)),
        "start time": f"pts {facts['start_time_s']:.3f} s",
        "packets": _told_packets(facts),
        "GOPs": _told_gops(facts["gops"]),
        "index": f"{index.method}{'' if facts['index']['by_position'] else ', packets must be demuxed'}",
        "NVDEC": _told_nvdec(facts["nvdec"]),
    }.items():
        table.add_row(name, plain(value))
    out.print(table)


def _print_strip(strip: CodedPictures, order: str) -> None:
    print_line(strip.letters)
    letters = "I intra, P predicted, B bidirectional; small: disposable"
    out.print(f"{order} order, | before a keyframe\n{letters}", style="dim")
    if strip.error:
        print_line(f"they are known no further: {strip.error}")


def _print_costs(costs: list[dict[str, Any]]) -> None:
    table = Table(Column("frame mode", overflow="fold"), "clips", "packets a clip", "packets a frame")
    for cost in costs:
        figures = (f"{cost['packets_per_clip']:.1f}", f"{cost['packets_per_frame']:.1f}") if cost["clips"] else ("", "")
        table.add_row(cost["mode"], str(cost["clips"]), *figures)
    out.print(table)


def _told_stream(stream: dict[str, Any]) -> str:
    start = f" from {stream['start_time_s']:.3f} s" if stream["start_time_s"] else ""
    told = [stream["kind"], stream["codec"], stream["language"]]
    return f"{stream['index']}: {' '.join(filter(None, told))}{start}"


def _told_picture(facts: dict[str, Any]) -> str:
    told = [f"{facts['width']}×{facts['height']}"]
    if facts["rotation"]:
        told.append(f"{facts['coded_width']}×{facts['coded_height']} turned by {facts['rotation']}°")
    told += ["mirrored"] if facts["mirrored"] else []
    told += ["sizes vary"] if facts["size_varies"] else []
    told += ["encrypted"] if facts["encrypted"] else []
    told += [f"pixel aspect {facts['sample_aspect_ratio']}"] if facts["sample_aspect_ratio"] != "1:1" else []
    told += [facts["chroma"]] if facts["chroma"] else []
    told += [f"{facts['bit_depth']} bit"] if facts["bit_depth"] else []
    return ", ".join(told)


def _told_color(color: dict[str, Any]) -> str:
    told = [f"{name} {color[name]}" for name in ("primaries", "transfer", "matrix", "range") if color[name]]
    return ", ".join(told) or "not stated"


def _told_packets(facts: dict[str, Any]) -> str:
    rate = f", {facts['bits_per_second'] / 1000:.0f} kb/s" if facts["bits_per_second"] else ""
    return f"{facts['packets']}, {counted(facts['gops']['keyframes'], 'keyframe')}{rate}"


def _told_gops(gops: dict[str, Any]) -> str:
    if not gops["keyframes"]:
        return "none: there is no keyframe"
    told = f"{gops['shortest']} to {gops['longest']} packets, median {gops['median']}"
    leading = gops["leading_frames"]
    return told + (f"; open: {leading} frames need the GOP before theirs" if leading else "; closed")


def _told_nvdec(nvdec: dict[str, Any]) -> str:
    if nvdec["takes"] is None:
        return f"not asked: {nvdec['reason']}"
    return "takes it" if nvdec["takes"] else f"does not take it: {nvdec['reason']}"
