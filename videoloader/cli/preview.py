"""``videoloader preview``: a picture, or a moving one, of what a mode and transforms make of videos."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from videoloader.cli.expressions import MODE_HELP, mode_from, transforms_from
from videoloader.cli.sources import Json, Root, dataset_of
from videoloader.cli.terminal import err, errors_told, out, print_json
from videoloader.errors import ConfigurationError, needs, printable

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from videoloader.batching.batch import Batch
    from videoloader.dataset import VideoDataset
    from videoloader.pictures import Strip
    from videoloader.transforms.normalize import Normalize

_STILL, _MOVING = (".png", ".jpg", ".jpeg"), (".gif", ".webp")
# Rows that are looked at for each clip that is wanted: some may be unreadable, or too short.
_ROWS_PER_CLIP = 4
# Of a moving picture, milliseconds: browsers show shorter ones slowly.
_SHORTEST = 20


@dataclass(frozen=True)
class _Shown:
    """A clip with all of its frames, and what is told of it.

    Attributes:
        strip: of all frames.
        facts: as JSON holds them.
    """

    strip: Strip
    facts: dict[str, Any]


def preview(
    source: Annotated[str, typer.Argument(help="A video, a folder of videos, a table, a list, or an index store.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Contact sheet: .png, .jpg. Moving: .gif, .webp.", show_default=False),
    ],
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "RandomWindow(16, stride=4)",
    transforms: Annotated[str, typer.Option(help="Transforms, written as in Python. Default: none.")] = "",
    clips: Annotated[int, typer.Option(min=1, help="Clips to show, at most.")] = 4,
    frames: Annotated[int, typer.Option(min=1, help="Frames of each clip in a contact sheet, at most.")] = 16,
    size: Annotated[int | None, typer.Option(min=16, help="Pixels of a frame's longer side.")] = None,
    fps: Annotated[float | None, typer.Option(min=0.1, help="Rate of a moving picture. Default: the video's.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is random: rows, windows, transforms.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    index: Annotated[Path | None, typer.Option(help="The videos' index store.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Show what a frame mode and transforms make of videos, with the number and the time under each frame.

    Frames that padding made up are hatched, damaged ones have a red frame.
    """
    with errors_told():
        from videoloader.pictures import NEEDS_PILLOW, contact_sheet
        from videoloader.transforms import Normalize

        ending = output.suffix.lower()
        if ending not in (*_STILL, *_MOVING):
            raise ConfigurationError(f"the name must end with {', '.join((*_STILL, *_MOVING))}", str(output))
        with needs(NEEDS_PILLOW):
            import PIL  # noqa: F401
        chosen = transforms_from(transforms) if transforms.strip() else []
        normalize = next((each for each in chosen if isinstance(each, Normalize)), None)
        data = _some_rows(dataset_of(source, root), clips, seed)
        shown = _clips(data, mode, chosen, clips, seed, device, index)
        strips = [each.strip for each in shown]
        if ending in _STILL:
            contact_sheet([_spread(strip, frames) for strip in strips], size=size, normalize=normalize).save(output)
        else:
            _save_moving(strips, output, size, normalize, fps)
        if json:
            print_json({"output": str(output), "clips": [each.facts for each in shown]})
        else:
            told = f"{len(shown)} clips of {mode}" if len(shown) != 1 else f"1 clip of {mode}"
            out.print(f"{told} in {printable(str(output))}", markup=False, highlight=False, soft_wrap=True)


def _some_rows(data: VideoDataset, clips: int, seed: int) -> VideoDataset:
    """Random rows, of which that many clips can be made if most are sound."""
    from videoloader.permutation import permute

    count = min(len(data), _ROWS_PER_CLIP * clips)
    return data if count == len(data) == 1 else data[permute(np.arange(count), len(data), seed, 0)]


def _clips(
    data: VideoDataset, mode: str, transforms: list[Any], count: int, seed: int, device: str, index: Path | None
) -> list[_Shown]:
    """The first clips of a loader, which may be of different sizes."""
    from videoloader.loader import VideoLoader

    shown: list[_Shown] = []
    loader = VideoLoader(
        data,
        mode_from(mode),
        batch_size=1,
        device=device,
        transforms=transforms,
        layout="THWC",
        seed=seed,
        on_error="skip",
        index=index,
        prefetch=count,
    )
    with closing(loader):
        for batch in loader:
            shown += [_shown(batch, row, data) for row in range(len(batch))]
            if len(shown) >= count:
                break
    for path, reason in loader.unreadable:
        err.print(f"left out: {path}: {reason}", markup=False, highlight=False, soft_wrap=True)
    return shown[:count]


def _shown(batch: Batch, row: int, data: VideoDataset) -> _Shown:
    from videoloader.pictures import Strip, Tile

    numbers, times, mask = batch.frame_numbers[row], batch.timestamps[row], batch.mask[row]
    tiles = [
        Tile(frame, int(number), float(time), made_up=not real, damaged=bool(damaged))
        for frame, number, time, real, damaged in zip(
            batch.frames[row].cpu(), numbers, times, mask, batch.corrupt[row], strict=True
        )
    ]
    path, label = batch.paths[row], batch.labels[row]
    told = [PurePath(path).name]
    if label.ndim == 0 and label >= 0:
        told.append(data.class_names[int(label)] if data.class_names else f"label {int(label)}")
    facts = {
        "path": path,
        "frame_numbers": numbers.tolist(),
        "timestamps": [None if np.isnan(time) else float(time) for time in times],
        "mask": mask.tolist(),
    }
    return _Shown(Strip(tiles, ", ".join(told)), facts)


def _spread(strip: Strip, most: int) -> Strip:
    """The strip with so many frames at most, evenly spaced, the first and the last among them."""
    count = len(strip.tiles)
    places = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    return replace(strip, tiles=[strip.tiles[place] for place in places], left_out=count - len(places))


def _save_moving(
    strips: list[Strip], output: Path, size: int | None, normalize: Normalize | None, fps: float | None
) -> None:
    """Clips side by side, a frame of each at a time; shorter ones wait at their end."""
    from PIL import Image

    from videoloader.pictures import contact_sheet

    longest = max(strips, key=lambda strip: len(strip.tiles))
    sheets: list[Picture] = []
    for step in range(len(longest.tiles)):
        now = [replace(strip, tiles=[strip.tiles[min(step, len(strip.tiles) - 1)]]) for strip in strips]
        sheets.append(contact_sheet(now, size=size, normalize=normalize))
    # Marks take room under some frames.
    whole = max(sheet.width for sheet in sheets), max(sheet.height for sheet in sheets)
    pages = [Image.new("RGB", whole, "white") for _ in sheets]
    for page, sheet in zip(pages, sheets, strict=True):
        page.paste(sheet, (0, 0))
    steps = np.diff([tile.time for tile in longest.tiles if tile.time is not None and not np.isnan(tile.time)])
    seconds = 1 / fps if fps else float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.5
    duration = max(round(1000 * seconds), _SHORTEST)
    pages[0].save(output, save_all=True, append_images=pages[1:], duration=duration, loop=0)
