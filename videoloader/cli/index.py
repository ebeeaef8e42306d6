"""``videoloader index``: builds or updates an index store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from videoloader.cli.sources import Json, Root, Sources, Workers, paths_of
from videoloader.cli.store_table import print_store
from videoloader.cli.terminal import WRONG_DATA, errors_told, out, print_json, print_line
from videoloader.indexing import BuildReport, IndexStore, build_store
from videoloader.indexing.store.fingerprints import FingerprintKind
from videoloader.indexing.store.keys import SourceKeys

# The most unreadable files to list one by one.
_LISTED = 20


def index(
    sources: Sources,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Index store to make or to bring up to date.", show_default=False)
    ],
    root: Root = None,
    store_root: Annotated[
        Path | None,
        typer.Option(help="Folder that paths in the store are relative to. Default: the folder of the store."),
    ] = None,
    workers: Workers = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try unreadable files again, even if they have not changed.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove the rows of videos that no longer exist.")] = False,
    fingerprint: Annotated[
        str | None, typer.Option(help="How to recognise an unchanged file: mtime, size or content. Default: as before.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any file cannot be indexed.")] = False,
    json: Json = False,
) -> None:
    """Index videos into a store, or bring a store up to date.

    Only new and changed files are read, so run it again whenever you like. The exit code is 1 if no video can be
    indexed; with --strict, if any video cannot be indexed.
    """
    with errors_told("interrupted: the videos indexed so far are kept; run the same command again to continue"):
        paths = paths_of(sources, root)
        kind = cast(FingerprintKind | None, fingerprint)
        report = build_store(
            paths, output, root=store_root, workers=workers, retry=retry, prune=prune, fingerprint=kind
        )
        if json:
            print_json({"store": str(output), **asdict(report)})
        else:
            _print_build(report)
            print_store(IndexStore(output, root=store_root))
    nothing = len(report.unreadable) == len(set(SourceKeys.all_absolute(paths)))
    if nothing or (strict and report.unreadable):
        raise typer.Exit(WRONG_DATA)


def _print_build(report: BuildReport) -> None:
    rate = report.indexed / report.seconds
    speed = f", {rate:.{0 if rate > 9 else 1}f} a second" if report.indexed else ""
    out.print(
        f"{report.indexed} indexed, {report.unchanged} unchanged, {len(report.unreadable)} unreadable, "
        f"{len(report.vanished)} vanished{' and forgotten' if report.pruned else ''} "
        f"in {report.seconds:.1f} s{speed}"
    )
    for path, reason in report.unreadable[:_LISTED]:
        print_line(f"unreadable: {path}: {reason}")
    if len(report.unreadable) > _LISTED:
        print_line(f"and {len(report.unreadable) - _LISTED} more")
