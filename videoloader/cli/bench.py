"""``videoloader bench``: measures the clips per second of a data set, and where the time goes."""

from __future__ import annotations

import time
from contextlib import closing, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videoloader.cli.expressions import MODE_HELP, mode_from, transforms_from
from videoloader.cli.sources import Index, Json, Root, Source, dataset_of
from videoloader.cli.terminal import err, errors_told, print_json, print_line, told_once

if TYPE_CHECKING:
    from videoloader.batching.stats import LoaderStats
    from videoloader.loader import VideoLoader

_TRANSFORMS = "RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()"
# Above this busy share a single-threaded stage is the bottleneck; above this number of packets per frame shorter GOPs
# pay off.
_BUSY, _MANY_PACKETS = 0.9, 4.0


def bench(
    source: Source,
    mode: Annotated[str, typer.Option(help=MODE_HELP)] = "RandomWindow(16, stride=4)",
    transforms: Annotated[str, typer.Option(help="Transforms, written as in Python; '' for none.")] = _TRANSFORMS,
    batch_size: Annotated[int, typer.Option(min=1, help="Clips per batch.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds to measure after the first batch.")] = 10,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    workers: Annotated[
        int | None, typer.Option(min=0, help="Number of decoding threads. Default: as in VideoLoader.")
    ] = None,
    index: Index = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Measure how many clips per second this machine loads, and where the time goes.

    The batches are thrown away, so this is the most that a training loop can get. Unreadable files are left out.
    """
    with errors_told():
        from videoloader.loader import VideoLoader

        begin = time.perf_counter()
        loader = VideoLoader(
            dataset_of(source, root),
            mode_from(mode),
            batch_size=batch_size,
            device=device,
            transforms=transforms_from(transforms) if transforms.strip() else (),
            shuffle=True,
            num_workers=workers,
            on_error="skip",
            index=index,
        )
        prepared = time.perf_counter() - begin
        with closing(loader):
            first_batch_s, stats = _measure(loader, seconds)
            about = {"device": str(loader.device), "mode": mode, "transforms": transforms, "batch_size": batch_size}
            told = {**about, "preparing_s": prepared, "first_batch_s": first_batch_s, **_figures(stats)}
            told["unreadable"] = [[path, reason] for path, reason in loader.unreadable]
        if json:
            print_json(told)
        else:
            _print(told, stats)


def _measure(loader: VideoLoader, seconds: float) -> tuple[float, LoaderStats]:
    """Loop over epochs until so many seconds after the first batch.

    Returns:
        The seconds until the first batch, in which threads, processes and decoders start, and statistics of all later
        batches.
    """
    import torch

    begin = time.perf_counter()
    first_batch_s, first = 0.0, loader.stats()
    with err.status("measuring") if err.is_terminal else nullcontext():
        while True:
            for _ in loader:
                if not first_batch_s:
                    first_batch_s, first = time.perf_counter() - begin, loader.stats()
                elif time.perf_counter() - begin >= first_batch_s + seconds:
                    if loader.device.type == "cuda":
                        torch.cuda.synchronize(loader.device)
                    return first_batch_s, loader.stats() - first


def _figures(stats: LoaderStats) -> dict[str, Any]:
    return {
        "clips_per_second": stats.clips / stats.seconds,
        "frames_per_second": stats.shown / stats.seconds,
        "packets_per_frame": stats.packets / stats.frames if stats.frames else None,
        "stats": asdict(stats),
        "limit": _limit(stats),
    }


def _limit(stats: LoaderStats) -> str:
    """What to change first, in one sentence."""
    if stats.planning / stats.seconds > _BUSY:
        return "planning, which runs in one thread: use an index store, and longer clips"
    if stats.transforming / stats.seconds > _BUSY:
        return "transforms after decoding, which run in one thread: crop and resize first, as a part of decoding"
    packets = stats.packets / max(stats.frames, 1)
    if packets > _MANY_PACKETS:
        return f"decoding: {packets:.1f} packets per frame; shorter GOPs cost less (see videoloader describe)"
    return "decoding: smaller pictures, or clips that use more frames of each GOP, cost less"


def _print(told: dict[str, Any], stats: LoaderStats) -> None:
    lines = {
        "on": told["device"],
        "clips": f"{told['clips_per_second']:.1f} a second, of {told['mode']}",
        "frames": f"{told['frames_per_second']:.0f} a second",
        "start": f"{told['preparing_s']:.2f} s to prepare, {told['first_batch_s']:.2f} s to the first batch",
        "measured": str(stats),
        "limit": told["limit"],
    }
    for name, value in lines.items():
        for number, line in enumerate(value.splitlines()):
            print_line(f"{'' if number else name:<10}{line}")
    for path, reason in told["unreadable"]:
        print_line(f"left out: {told_once(path, reason)}")
