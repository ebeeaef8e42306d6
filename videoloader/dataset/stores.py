"""Reads facts about a data set's videos from an index store, or from one built temporarily."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from videoloader.errors import NotIndexedError, SourceError, system_reason
from videoloader.errors.checks import check
from videoloader.indexing import IndexStore, build_store
from videoloader.indexing.store.keys import to_sql
from videoloader.indexing.store.schema import check_values

Store = IndexStore | str | os.PathLike[str]
# Far below the 999 parameters that old versions of SQLite allow in one statement.
_PATHS_AT_ONCE = 500
DISPLAYED_HEIGHT = "CASE WHEN rotation IN (90, 270) THEN width ELSE height END"
DISPLAYED_WIDTH = "CASE WHEN rotation IN (90, 270) THEN height ELSE width END"


@contextmanager
def opened_store(paths: Sequence[str], store: Store | None) -> Iterator[IndexStore]:
    """A store with these videos: the given one, or a temporary one that is built now.

    Raises:
        SourceError, IndexingError: the store cannot be read, or a temporary one cannot be written.
    """
    is_store = isinstance(store, IndexStore | str | os.PathLike | None)
    check("store", store, is_store, "an IndexStore or the path of one")
    if store is not None:
        yield store if isinstance(store, IndexStore) else IndexStore(store)
        return
    try:
        folder = tempfile.mkdtemp(prefix="videoloader-")
    except OSError as error:
        why = f"no temporary folder for an index store can be made ({system_reason(error)})"
        raise SourceError(f"{why}: give store=, or set TMPDIR to a folder that may be written to") from error
    try:
        path = os.path.join(folder, "index.db")
        build_store(dict.fromkeys(paths), path)
        yield IndexStore(path)
    finally:
        with suppress(OSError):  # also of calls whose errors are not ignored
            shutil.rmtree(folder, ignore_errors=True)


def facts_of_rows(
    store: IndexStore, paths: Sequence[str], expressions: Sequence[str], parameters: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """The values of SQL expressions over the columns of ``videos`` for each path, in order, including repeats.

    Raises:
        ConfigurationError: an expression is not SQL.
        NotIndexedError: the store has no row for a video.
        IndexingError: a column has a value of another type than a build writes.
    """
    select = f"SELECT source, {', '.join(expressions)} FROM videos WHERE source IN"
    for start in range(0, len(paths), _PATHS_AT_ONCE):
        some = paths[start : start + _PATHS_AT_ONCE]
        keys = [to_sql(store.keys.key_of(path)) for path in some]
        rows = store.query(f"{select} ({','.join('?' * len(keys))})", (*parameters, *keys))
        known = {key: facts for key, *facts in rows}
        for facts in known.values():
            check_values(facts, expressions, store.path)
        for path, key in zip(some, keys, strict=True):
            if key not in known:
                raise NotIndexedError(f"is not in the index store {store.path}: add it with build_store", path)
            yield tuple(known[key])
