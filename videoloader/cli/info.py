"""``videoloader info``: what is known of a video, or of the videos in a store."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from videoloader.cli.sources import Json, is_store
from videoloader.cli.store_table import print_store, store_facts
from videoloader.cli.terminal import errors_told, out, plain, print_json
from videoloader.indexing import IndexStore, VideoIndex, build_index
from videoloader.sampling import AllFrames
from videoloader.sampling.screen_time import told_span


def info(file: Annotated[str, typer.Argument(help="A video or an index store.")], json: Json = False) -> None:
    """What is known of a video, or of the videos in an index store."""
    with errors_told():
        if is_store(file):
            store = IndexStore(file)
            if json:
                print_json(store_facts(store))
            else:
                print_store(store)
        else:
            _print_video(build_index(file))


def _print_video(video: VideoIndex) -> None:
    stream = video.stream
    turned = f", turned by {stream.rotation}°" if stream.rotation else ""
    depth = f"{stream.bit_depth} bit" if stream.bit_depth else ""
    pixels = f"{stream.chroma or ''} {depth}".strip()
    table = Table("", plain(video.source), show_header=True)
    for name, value in {
        "codec": f"{stream.codec} in {video.container}",
        "picture": ", ".join([f"{stream.width}×{stream.height}{turned}", *([pixels] if pixels else [])]),
        "frames": f"{len(video)} in {video.duration:.3f} s, {video.average_fps:.3f} a second"
        + (" (variable rate)" if video.is_vfr else ""),
        "shown": told_span(AllFrames(video)),
        "packets": f"{len(video.packet_size)}, {int(video.packet_key.sum())} keyframes",
        "index": video.method + ("" if video.byte_ranges else ", packets must be demuxed"),
    }.items():
        table.add_row(name, plain(value))
    out.print(table)
