"""The command ``videoloader``: build index stores, look into them, and verify videos."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

from videoloader.dataset import VideoDataset
from videoloader.dataset.reading import TABLE_ENDINGS
from videoloader.errors import SourceError, VideoLoaderError
from videoloader.indexing import BuildReport, IndexStore, VideoIndex, build_index, build_store
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.sampling import AllFrames, RandomWindow
from videoloader.sampling.screen_time import told_span
from videoloader.verification.verify_source import verify as verify_videos

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table
except ImportError:
    sys.exit("the videoloader command needs typer and rich: pip install 'videoloader[cli]'")

# Unreadable files that are listed one by one.
_LISTED = 20
_LIST_ENDINGS = (".txt", ".lst")

_SOURCES = "folders of videos, videos, tables (.csv, .tsv, .jsonl, .parquet) or lists of paths (.txt), any number"
_Sources = Annotated[list[str], typer.Argument(help=_SOURCES)]

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
# Tables are for people: wide enough for a reason even where nobody looks.
_out = Console(width=None if sys.stdout.isatty() else 160, soft_wrap=False)
_err = Console(stderr=True)


@app.callback()
def _describe() -> None:
    """Index videos once, for every process that reads them, and verify them."""


@app.command()
def index(
    sources: _Sources,
    output: Annotated[Path, typer.Option("--output", "-o", help="the index store, made or brought up to date")],
    workers: Annotated[int | None, typer.Option(min=1, help="processes; one for each core unless given")] = None,
    root: Annotated[
        Path | None, typer.Option(help="folder that paths are kept relative to; the store's own unless given")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="try unreadable files that have not changed again")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="forget videos that do not exist any more")] = False,
    fingerprint: Annotated[
        str | None, typer.Option(help="by what a file is known again: mtime, size or content; as before unless given")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 if a file cannot be indexed")] = False,
) -> None:
    """Index videos into a store. Only new and changed files are read, so run it again whenever you like."""
    with _errors_told():
        paths = list(dict.fromkeys(path for source in sources for path in _paths_of(source)))
        with _progress("indexing", len(paths)) as tell:
            report = build_store(
                paths,
                output,
                root=root,
                workers=workers,
                progress=tell,
                retry=retry,
                prune=prune,
                fingerprint=cast(FingerprintKind | None, fingerprint),
            )
        _print_build(report)
        _print_store(IndexStore(output, root=root))
    if strict and report.unreadable:
        raise typer.Exit(1)


@app.command()
def info(file: Annotated[Path, typer.Argument(help="a video or an index store")]) -> None:
    """What is known of a video, or of the videos in an index store."""
    with _errors_told():
        if _is_database(file):
            _print_store(IndexStore(file))
        else:
            _print_video(build_index(file))


@app.command()
def describe(
    source: Annotated[Path, typer.Argument(help="a folder of videos, or a table (.csv, .tsv, .jsonl, .parquet)")],
    index: Annotated[Path | None, typer.Option(help="their index store; without one they are indexed now")] = None,
    length: Annotated[int, typer.Option(min=1, help="frames of the clips whose cost is told")] = 16,
    stride: Annotated[int, typer.Option(min=1, help="from one frame of a clip to the next")] = 4,
) -> None:
    """What a data set holds, and what random clips of it cost to decode."""
    with _errors_told():
        data = VideoDataset.from_folder(source) if source.is_dir() else VideoDataset.from_csv(source)
        told = data.describe(RandomWindow(length, stride=stride), store=index)
        _out.print(str(told), markup=False, highlight=False)


@app.command()
def verify(
    sources: _Sources,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto: whether NVDEC is asked, too")] = "auto",
    workers: Annotated[int | None, typer.Option(min=1, help="processes; one for each core unless given")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="where the report goes, as JSON")] = None,
) -> None:
    """Decode videos from start to end and read them in every other way; exit with 1 if anything is wrong with one."""
    with _errors_told():
        paths = list(dict.fromkeys(path for source in sources for path in _paths_of(source)))
        with _progress("verifying", len(paths)) as tell:
            report = verify_videos(paths, device=device, workers=workers, progress=tell)
        if output is not None:
            output.write_text(report.to_json(indent=1))
        # A line each, never folded: for grep, and for paths to be copied.
        for line in str(report).splitlines():
            _out.print(_plain(line), highlight=False, soft_wrap=True)
    if not report.ok:
        raise typer.Exit(1)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar in the terminal, and what is told how many are done, and of how many."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _errors_told() -> Iterator[None]:
    """Errors of ours as one line on stderr and exit code 2; Ctrl-C as 130; warnings without a place in the code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _tell_warning  # type: ignore[assignment]
            yield
    except VideoLoaderError as error:
        _err.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _err.print("interrupted: what was indexed is kept; run the same command again to go on")
        raise typer.Exit(130) from None


def _tell_warning(message: Warning | str, *_place: object) -> None:
    _err.print(f"warning: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _paths_of(argument: str) -> Iterable[str]:
    """The videos that an argument stands for."""
    source = Path(argument)
    if source.is_dir():
        return VideoDataset.from_folder(source).table.path
    if source.suffix.lower() in TABLE_ENDINGS:
        return VideoDataset.from_csv(source).table.path
    if source.suffix.lower() in _LIST_ENDINGS:
        return _listed_paths(source)
    if "://" not in argument and "::" not in argument and not source.exists():
        raise SourceError("there is no such file or folder", argument)
    return [argument]


def _listed_paths(source: Path) -> Iterator[str]:
    """One path a line, relative ones from the list's folder."""
    try:
        lines = source.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise SourceError(f"the list cannot be read ({error.strerror})", str(source)) from None
    for line in filter(None, map(str.strip, lines)):
        yield line if "://" in line else str(source.parent / line)


def _is_database(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(16) == b"SQLite format 3\0"
    except OSError:
        return False  # indexing it says why


def _print_build(report: BuildReport) -> None:
    speed = f", {report.indexed / report.seconds:.0f} a second" if report.indexed else ""
    _out.print(
        f"{report.indexed} indexed, {report.unchanged} unchanged, {len(report.unreadable)} unreadable, "
        f"{len(report.vanished)} vanished{' and forgotten' if report.pruned else ''} "
        f"in {report.seconds:.1f} s{speed}",
        highlight=False,
    )
    # A line each, never folded: for grep, and for paths to be copied.
    for path, reason in report.unreadable[:_LISTED]:
        _out.print(f"unreadable: {_plain(path)}: {_plain(reason)}", highlight=False, soft_wrap=True)
    if len(report.unreadable) > _LISTED:
        _out.print(f"and {len(report.unreadable) - _LISTED} more", highlight=False)


def _print_store(store: IndexStore) -> None:
    total = "SELECT count(*), sum(frames), sum(duration_s) FROM videos WHERE error_type IS NULL"
    table = Table("codec", "videos", "frames", "hours", "largest", "longest GOP", "variable rate")
    groups = store.query(
        "SELECT codec, count(*), sum(frames), sum(duration_s), max(width), max(height), max(longest_gop), sum(is_vfr) "
        "FROM videos WHERE error_type IS NULL GROUP BY codec ORDER BY count(*) DESC"
    )
    for codec, videos, frames, seconds, width, height, gop, variable in groups:
        cells = (videos, frames, f"{seconds / 3600:.2f}", f"{width}×{height}", gop, variable)
        table.add_row(_plain(codec), *map(str, cells))
    videos, frames, seconds = store.query(total)[0]
    table.add_section()
    table.add_row("all", str(videos), str(frames or 0), f"{(seconds or 0) / 3600:.2f}", "", "", "")
    if unreadable := len(store) - videos:
        table.add_row("unreadable", str(unreadable), "", "", "", "", "")
    _out.print(table)


def _print_video(video: VideoIndex) -> None:
    stream = video.stream
    turned = f", turned by {stream.rotation}°" if stream.rotation else ""
    depth = f"{stream.bit_depth} bit" if stream.bit_depth else ""
    pixels = f"{stream.chroma or ''} {depth}".strip()
    table = Table("", _plain(video.source), show_header=True)
    for name, value in {
        "codec": f"{stream.codec} in {video.container}",
        "picture": ", ".join([f"{stream.width}×{stream.height}{turned}", *([pixels] if pixels else [])]),
        "frames": f"{len(video)} in {video.duration:.3f} s, {video.average_fps:.3f} a second"
        + (" (variable rate)" if video.is_vfr else ""),
        "shown": told_span(AllFrames(video)),
        "packets": f"{len(video.packet_size)}, {int(video.packet_key.sum())} keyframes",
        "index": video.method + ("" if video.byte_ranges else ", packets must be demuxed"),
    }.items():
        table.add_row(name, _plain(value))
    _out.print(table)


def _plain(text: str) -> str:
    """Names of files may hold what a terminal must not be sent, and what Rich takes for markup."""
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return shown.replace("[", "\\[")
