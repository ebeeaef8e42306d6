"""``videoloader check``: decodes whole videos, and compares every way of reading them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from videoloader.cli.sources import Json, Root, Sources, Workers, check_output, paths_of
from videoloader.cli.terminal import WRONG_DATA, err, errors_told, out, plain, print_json, print_line
from videoloader.errors import ConfigurationError
from videoloader.indexing.store.fingerprints import fingerprint_of
from videoloader.live_line import live_line

if TYPE_CHECKING:
    from videoloader.verification.report import VerifyReport


def check(
    sources: Sources,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto. On a GPU, NVDEC is checked as well.")] = "auto",
    root: Root = None,
    workers: Workers = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the report, as JSON.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip unchanged videos that are already in the report of --output.")
    ] = False,
    json: Json = False,
) -> None:
    """Decode videos from start to end, and compare every other way of reading them.

    The exit code is 1 if anything is wrong with a video. The report is written while the check runs; after an
    interruption, continue with --resume.
    """
    kept = f"; {output} has the results so far: continue with --resume" if output else ""
    with errors_told(f"interrupted{kept}"):
        from videoloader.cli.check_report import CheckReport
        from videoloader.runtime.device import resolve_device
        from videoloader.verification.verify_source import verify_each

        if resume and output is None:
            raise ConfigurationError("--resume needs the report to go on with: --output FILE")
        paths = paths_of(sources, root)
        check_output(output, [*sources, *paths])
        on = resolve_device(device)
        found = CheckReport(paths, str(on), output)
        done = found.take_over() if resume else 0
        if done:
            err.print(f"{done} of {len(paths)} were checked before")
        if output is not None and not output.exists():
            found.write()  # reports now if the file cannot be written
        missing = found.missing
        try:
            with live_line("checking") as tell:
                fingerprints = list(map(fingerprint_of, missing))
                for number, report in verify_each(missing, on, workers) if missing else ():
                    found.add(missing[number], fingerprints[number], report)
                    done += 1
                    tell(done, len(paths))
        finally:
            found.write()
        if json:
            print_json(found.to_dict())
        else:
            _print(found.report())
    if not found.report().ok:
        raise typer.Exit(WRONG_DATA)


def _print(report: VerifyReport) -> None:
    """Print a line for each fault, never wrapped, and for several files a table of fault counts."""
    for line in str(report).splitlines():
        print_line(line)
    if len(report.files) == 1:
        return
    table = Table("codec", "container", "videos", "frames", "ok", "damaged", "faults")
    groups = sorted({(file.codec, file.container) for file in report.files})
    for codec, container in groups:
        files = [file for file in report.files if (file.codec, file.container) == (codec, container)]
        kinds = sorted({fault.kind for file in files for fault in file.faults})
        counts = (
            len(files),
            sum(file.frames for file in files),
            sum(file.ok for file in files),
            sum(bool(file.damaged) for file in files),
        )
        table.add_row(plain(codec) or "not read", plain(container), *map(str, counts), ", ".join(kinds))
    out.print(table)
