"""``videoloader preview``: shows clips after a mode and transforms as a still or animated picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from videoloader.cli.example_clips import example_clips, some_rows
from videoloader.cli.expressions import MODE_HELP, mode_from, transforms_from
from videoloader.cli.sources import Json, Root, check_output, dataset_of
from videoloader.cli.terminal import errors_told, print_json, print_line
from videoloader.errors import ConfigurationError, counted, needs
from videoloader.indexing.sources.regular_file import replacing

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from videoloader.showing.contact_sheet import Strip
    from videoloader.transforms.normalize import Normalize

_OUTPUT = "Picture to write: .png or .jpg for a contact sheet, .gif or .webp for an animation."
_STILL, _MOVING = (".png", ".jpg", ".jpeg"), (".gif", ".webp")
# The shortest frame duration of an animated picture in milliseconds: browsers slow down shorter ones.
_SHORTEST = 20


def preview(
    source: Annotated[str, typer.Argument(help="A video, a folder of videos, a table, a list, or an index store.")],
    output: Annotated[Path, typer.Option("--output", "-o", help=_OUTPUT, show_default=False)],
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "RandomWindow(16, stride=4)",
    transforms: Annotated[str, typer.Option(help="Transforms, written as in Python. Default: none.")] = "",
    clips: Annotated[int, typer.Option(min=1, help="Maximum number of clips.")] = 4,
    frames: Annotated[int, typer.Option(min=1, help="Maximum number of frames per clip in a contact sheet.")] = 16,
    size: Annotated[int | None, typer.Option(min=16, max=4096, help="Longer side of a frame, in pixels.")] = None,
    fps: Annotated[
        float | None, typer.Option(min=0.1, help="Frame rate of an animation. Default: that of the video.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for random rows, windows and transforms.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    index: Annotated[Path | None, typer.Option(help="Index store of the videos.")] = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Draw the clips that a frame mode and transforms produce.

    The number and the time are under each frame. Frames that padding made up are hatched, and damaged frames have a red
    border.
    """
    with errors_told():
        from videoloader.showing.contact_sheet import NEEDS_PILLOW, contact_sheet
        from videoloader.transforms import Normalize

        ending = output.suffix.lower()
        if ending not in (*_STILL, *_MOVING):
            raise ConfigurationError(f"the name must end with {', '.join((*_STILL, *_MOVING))}", str(output))
        with needs(NEEDS_PILLOW):
            from PIL import Image
        chosen = transforms_from(transforms) if transforms.strip() else []
        normalize = next((each for each in chosen if isinstance(each, Normalize)), None)
        data = dataset_of(source, root)
        check_output(output, [source, *data.paths])
        data = some_rows(data, clips, seed)
        most = frames if ending in _STILL else None
        shown = example_clips(data, mode_from(mode), chosen, clips, most, seed, device, index)
        strips = [strip for strip, _ in shown]
        settings = dict[str, Any]()
        if ending in _STILL:
            picture = contact_sheet(strips, size=size, normalize=normalize)
        else:
            picture, settings = _moving(strips, size, normalize, fps)
        with replacing(str(output)) as file:
            picture.save(file, Image.registered_extensions()[ending], **settings)
        if json:
            print_json({"output": str(output), "clips": [facts for _, facts in shown]})
        else:
            print_line(f"{counted(len(shown), 'clip')} of {mode} in {output}")


def _moving(
    strips: list[Strip], size: int | None, normalize: Normalize | None, fps: float | None
) -> tuple[Picture, dict[str, Any]]:
    """The first picture of clips side by side, and how to save an animation; shorter clips hold their last frame."""
    from PIL import Image

    from videoloader.showing.contact_sheet import contact_sheet

    longest = max(strips, key=lambda strip: len(strip.tiles))
    sheets: list[Picture] = []
    for step in range(len(longest.tiles)):
        now = [replace(strip, tiles=[strip.tiles[min(step, len(strip.tiles) - 1)]]) for strip in strips]
        sheets.append(contact_sheet(now, size=size, normalize=normalize))
    # Marks under some frames make their sheets larger.
    whole = max(sheet.width for sheet in sheets), max(sheet.height for sheet in sheets)
    pages = [Image.new("RGB", whole, "white") for _ in sheets]
    for page, sheet in zip(pages, sheets, strict=True):
        page.paste(sheet, (0, 0))
    steps = np.diff([tile.time for tile in longest.tiles if tile.time is not None and not np.isnan(tile.time)])
    seconds = 1 / fps if fps else float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.5
    duration = max(round(1000 * seconds), _SHORTEST)
    return pages[0], {"save_all": True, "append_images": pages[1:], "duration": duration, "loop": 0}
