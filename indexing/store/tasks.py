"""Index one file into a row of a store, in whatever process or on whatever machine."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from videoloader.errors import ConfigurationError, IndexingError, SourceError, VideoLoaderError, printable
from videoloader.indexing.build import build_index
from videoloader.indexing.sources.opening import is_remote, open_source
from videoloader.indexing.sources.part import PartSource
from videoloader.indexing.store.fingerprints import FingerprintKind, fingerprint_of, renewed
from videoloader.indexing.store.frame_table import pack_index
from videoloader.indexing.store.schema import Row, facts_of


class Task(NamedTuple):
    """One video to index.

    Attributes:
        key: name of the video in the store.
        path: path of the video.
        known: fingerprint of its row in the store; None if it must be indexed in any case.
        kind: kind of fingerprint that its row should have.
    """

    key: str
    path: str
    known: str | None
    kind: FingerprintKind = "mtime"


class Answer(NamedTuple):
    """The answer to a task.

    Attributes:
        key: key of the task.
        row: the new row; None if the store has the video already.
        fingerprint: new fingerprint for the existing row; None if it stays.
        known: fingerprint that this row must still have.
    """

    key: str
    row: Row | None
    fingerprint: str | None = None
    known: str | None = None


def answer_task(task: Task) -> Answer:
    """Index a video unless the store has it already. If anything goes wrong, that becomes its row."""
    if task.known is not None and (now := renewed(task.path, task.known, task.kind)) is not None:
        return Answer(task.key, None, now if now != task.known else None, task.known)
    before = None if is_remote(task.path) else fingerprint_of(task.path)
    fingerprint = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the facts have what warnings would say
            source = open_source(task.path)
            fingerprint = fingerprint_of(task.path, task.kind, source)
            index = build_index(source)
            if fingerprint is None and not is_remote(task.path):  # later builds and readers would take any file for it
                raise SourceError("could not be read for a moment, so nothing tells when it changes", task.path)
            place = source.place if type(source) is PartSource and task.kind == "mtime" else None
            row = Row(task.key, fingerprint, facts=facts_of(index), packed=pack_index(index), place=place)
    except VideoLoaderError as error:
        if fingerprint is None and before is not None and before == fingerprint_of(task.path):  # it was not opened
            fingerprint = fingerprint_of(task.path, task.kind)
        row = failed_row(task, fingerprint, error)
    except Exception as error:
        # A bug with one file of a million must not cost the others their index.
        failure = IndexingError(f"the indexer failed ({type(error).__name__}: {error})", task.path)
        failure.__cause__ = error
        row = failed_row(task, fingerprint, failure)
    return Answer(task.key, row)


def failed_row(task: Task, fingerprint: str | None, error: VideoLoaderError) -> Row:
    """Return the row of a video that cannot be indexed.

    If the reason may be gone without a change of the file, it gets no fingerprint, so that the next build tries it
    again. Permissions, networks, settings, installed packages and free memory are such reasons.
    """
    passes = isinstance(error, SourceError | ConfigurationError) or _is_of_memory(error)
    return Row(task.key, None if passes else fingerprint, type(error).__name__, printable(error.message))


def _is_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, tells of a lack of memory, as libav's does too."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None
