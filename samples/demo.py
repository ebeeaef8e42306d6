"""Index a folder of videos, load clips from it for two epochs, and draw the result.

make demo                       a small data set that is made on the spot; every frame number is checked
make demo VIDEOS=/my/folder     your own videos, in class sub-folders or flat
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt
from make_videos import read_frame_number, write_dataset
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import videoloader as vl

LENGTH, STRIDE = 16, 4
ROWS, COLUMNS = 8, 8  # of the contact sheet
KEEP = 64  # clips held in memory to check and to choose from

INK, MUTED, PAPER, AMBER, RED = "#eceff4", "#8b94a7", "#14171d", "#f5b45b", "#ff6b6b"


@dataclass(frozen=True)
class Row:
    """A clip from the loader, on the CPU."""

    path: str
    frames: npt.NDArray[np.uint8]  # T, H, W, 3
    frame_numbers: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]
    corrupt: npt.NDArray[np.bool_]


def progress(console: Console, unit: str) -> Progress:
    """A progress bar with a title, the share done and a count."""
    return Progress(
        TextColumn("{task.description:<10}"), BarColumn(36), MofNCompleteColumn(), TextColumn(unit),
        TimeElapsedColumn(), console=console,
    )  # fmt: skip


def open_loader(data: vl.VideoDataset, own: bool, device: str, console: Console) -> vl.VideoLoader:
    """A loader of random clips. It indexes all videos, and prints one line for each unreadable one."""
    make = vl.VideoLoader  # the import that this costs is not indexing time
    began = time.perf_counter()
    with progress(console, "videos") as bar:
        task = bar.add_task("indexing", total=len(data))
        loader = make(
            data,
            vl.RandomWindow(LENGTH, stride=STRIDE, pad="edge"),
            batch_size=8,
            device=device,
            # The painted numbers must stay whole; videos of unknown shapes are cut to a square.
            transforms=[vl.Resize((120, 160))] if own else [vl.Resize(160), vl.CenterCrop(160)],
            layout="TCHW",
            dtype="uint8",
            shuffle=True,
            seed=0,
            on_error="skip",
            on_indexed=lambda: bar.advance(task),
        )
    each = 1000 * (time.perf_counter() - began) / len(data)
    for _, reason in loader.unreadable:
        console.print(f"  left out: {reason}", style="yellow", markup=False, soft_wrap=True)
    console.print(f"{len(data) - len(loader.unreadable)} videos indexed, {each:.2f} ms per video")
    return loader


def load_epoch(loader: vl.VideoLoader, name: str, console: Console) -> tuple[list[Row], int, float]:
    """The first clips, the number of clips, and the duration of an epoch in seconds."""
    rows: list[Row] = []
    clips, began = 0, time.perf_counter()
    with progress(console, "batches") as bar:
        for batch in bar.track(loader, total=len(loader), description=name):
            clips += len(batch.paths)
            if len(rows) < KEEP:
                frames = batch.frames.permute(0, 1, 3, 4, 2).cpu().numpy()
                facts = zip(
                    *(batch.paths, frames, batch.frame_numbers, batch.timestamps, batch.mask, batch.corrupt),
                    strict=True,
                )
                rows += [Row(*fact) for fact in facts]
    return rows[:KEEP], clips, time.perf_counter() - began


def count_right(rows: list[Row]) -> int:
    """The number of frames whose painted number agrees with the loader."""
    right = 0
    for row in rows:
        for frame, number in zip(row.frames, row.frame_numbers, strict=True):
            try:
                right += read_frame_number(frame) == number
            except ValueError:
                continue
    return right


def choose(rows: list[Row], many: int) -> list[Row]:
    """Choose clips for the sheet: two with padding, the others from as many folders as possible, damaged ones last."""
    rows = sorted(rows, key=lambda row: bool(row.corrupt.any()))
    short = [row for row in rows if not row.mask.all()]
    folders: dict[Path, list[Row]] = {}
    for row in rows:
        if row.mask.all():
            folders.setdefault(Path(row.path).parent, []).append(row)
    full = [row for turn in zip_longest(*folders.values()) for row in turn if row]
    return sorted((short[:2] + full + short[2:])[:many], key=lambda row: row.path)


def contact_sheet(rows: list[Row], summary: str) -> Image.Image:
    """One row per clip, with number and timestamp below each frame; padding is dimmed, and damage has a border."""
    gap, margin, header, footer, head = 8, 24, 30, 24, 72
    height, width = rows[0].frames.shape[1:3]
    step_x, step_y = width + gap, header + height + footer
    size = (2 * margin + COLUMNS * step_x - gap, margin + head + len(rows) * step_y)
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    large, normal, small = (ImageFont.load_default(points) for points in (24, 15, 13))
    draw.text((margin, margin), "videoloader", INK, large)
    draw.text((margin, margin + 32), summary, MUTED, normal)
    columns = np.linspace(0, LENGTH - 1, COLUMNS).round().astype(int)
    for line, row in enumerate(rows):
        top = margin + head + line * step_y
        index = vl.build_index(row.path)
        rate = f"{index.average_fps:.4g} fps" + (", variable" if index.is_vfr else "")
        about = f"{index.stream.codec}, {index.stream.width}x{index.stream.height}, {rate}, {len(index)} frames"
        name = str(Path(*Path(row.path).parts[-2:]))
        draw.text((margin, top + 6), name, INK, normal)
        right = margin + COLUMNS * step_x - gap
        draw.text((right, top + 8), about, MUTED, small, anchor="ra")
        for column, frame in enumerate(columns):
            x, y = margin + column * step_x, top + header
            picture = Image.fromarray(row.frames[frame])
            number, time_shown = f"{row.frame_numbers[frame]}", f"{row.timestamps[frame]:.3f} s"
            padding, damaged = not row.mask[frame], bool(row.corrupt[frame])
            if padding:
                number, time_shown = f"repeats {number}", ""
                grey = picture.convert("L").convert("RGB")
                picture = Image.blend(grey, Image.new("RGB", picture.size, PAPER), 0.6)
            sheet.paste(picture, (x, y))
            mark = RED if damaged else AMBER if padding else None
            if mark:
                draw.rectangle((x, y, x + width - 1, y + height - 1), outline=mark, width=2)
                word = "damaged" if damaged else "padding"
                draw.text((x + width / 2, y + height / 2), word, mark, normal, anchor="mm")
            draw.text((x, y + height + 3), number, mark or INK, small)
            draw.text((x + width, y + height + 3), time_shown, MUTED, small, anchor="ra")
    return sheet


def main() -> int:
    parser = argparse.ArgumentParser(description="Index a folder of videos, load clips from it, show them.")
    parser.add_argument("--videos", type=Path, help="folder of videos; without it, a small set is made")
    parser.add_argument("--output", type=Path, default=Path("demo.png"))
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    console = Console(highlight=False)

    own = args.videos is None
    folder = Path("demo_videos") if own else args.videos
    if own and not folder.exists():
        began = time.perf_counter()
        with console.status("writing videos"):
            written = write_dataset(folder)
        console.print(f"{len(written)} videos written to {folder}/ in {time.perf_counter() - began:.1f} s")
    try:
        data = vl.VideoDataset.from_folder(folder)
        loader = open_loader(data, own, args.device, console)
    except vl.VideoLoaderError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    broken = len(loader.unreadable)

    for epoch in range(1, args.epochs + 1):
        rows, clips, seconds = load_epoch(loader, f"epoch {epoch}", console)
        console.print(f"{clips} clips of {LENGTH} frames in {seconds:.2f} s: {clips / seconds:.1f} clips/s")
    for reason in dict(loader.unreadable[broken:]).values():
        console.print(f"  skipped: {reason}", style="yellow", markup=False, soft_wrap=True)
    if not rows:
        console.print(f"no clip of {folder} can be decoded", style="red", markup=False)
        return 1
    stats = loader.stats()
    cost = stats.packets / max(stats.frames, 1)
    console.print(f"decode cost: {stats.packets / stats.clips:.1f} packets per clip, {cost:.2f} per frame wanted")

    summary = (
        f"{len(data) - broken} videos, clips of {LENGTH} frames {STRIDE} apart ({COLUMNS} shown), "
        f"{clips / seconds:.1f} clips/s, {cost:.2f} packets decoded per frame"
    )
    contact_sheet(choose(rows, ROWS), summary).save(args.output)
    console.print(f"contact sheet: {args.output}", markup=False)
    if own:
        frames = sum(len(row.frames) for row in rows)
        right = count_right(rows)
        style = "green" if right == frames else "red"
        console.print(f"{right} of {frames} frames carry the painted number that was asked for", style=style)
        return int(right != frames)
    return 0


if __name__ == "__main__":
    sys.exit(main())
