"""Indexing of one file into a row: what a worker does, in whatever process or on whatever machine."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from videoloader.errors import IndexingError, SourceError, VideoLoaderError
from videoloader.indexing.build import build_index
from videoloader.indexing.store.fingerprints import fingerprint_of
from videoloader.indexing.store.frame_table import pack_index
from videoloader.indexing.store.schema import Row, facts_of


class Task(NamedTuple):
    """One video to look at.

    Attributes:
        key: its name in the store.
        path: where it is.
        known: fingerprint that its row in the store has; None where it must be indexed in any case.
    """

    key: str
    path: str
    known: str | None


class Answer(NamedTuple):
    """What came of a task; no row where the video is the one that the store knows."""

    key: str
    row: Row | None


def answer_task(task: Task) -> Answer:
    """Index a video unless the store knows it as it is. Whatever goes wrong with it becomes its row."""
    # Before the file is read: if it changes meanwhile, the row is stale instead of wrong.
    fingerprint = fingerprint_of(task.path)
    if task.known is not None and fingerprint == task.known:
        return Answer(task.key, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they tell is among the facts
            index = build_index(task.path)
            row = Row(task.key, fingerprint, facts=facts_of(index), packed=pack_index(index))
    except VideoLoaderError as error:
        row = failed_row(task, fingerprint, error)
    except Exception as error:
        # A fault of ours with one file of a million must not cost the others their index.
        failure = IndexingError(f"the indexer failed ({type(error).__name__}: {error})", task.path)
        row = failed_row(task, fingerprint, failure)
    return Answer(task.key, row)


def failed_row(task: Task, fingerprint: str | None, error: VideoLoaderError) -> Row:
    """The row of a video that cannot be indexed.

    A source that cannot be read has no fingerprint: permissions and networks change without the file, so that the
    next build tries it again.
    """
    message = str(error).removeprefix(f"{error.source}: ").encode("utf-8", "backslashreplace").decode()
    return Row(task.key, None if isinstance(error, SourceError) else fingerprint, type(error).__name__, message)
