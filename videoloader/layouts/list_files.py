"""Reads the files of published lists: lines of text, or one JSON value."""

from __future__ import annotations

import json
import os
from typing import Any

from videoloader.dataset.text_tables import each_name_once
from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.sources.regular_file import reading
from videoloader.indexing.sources.text_lines import lines

# Bytes. The largest published lists, of half a million videos, take half as much.
_LONGEST_JSON = 256 << 20
_OPENING: dict[type, str] = {dict: "{", list: "["}


def segment_of(annotation: Any) -> list[Any]:
    """The two times of an annotation in a JSON list, not yet converted: ``{"segment": [6.19, 17.15], …}``.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it has no list of two values there.
    """
    begin, end = segment = annotation["segment"]
    if not isinstance(segment, list) or isinstance(begin, bool) or isinstance(end, bool):
        raise TypeError
    return segment


def read_lines(path: str) -> list[tuple[int, str]]:
    """(number, stripped text) of each non-blank line of a UTF-8 file.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: it is not text.
    """
    texts = enumerate(map(str.strip, lines(path, "list")), 1)
    return [(number, text) for number, text in texts if text]


def read_json(path: str, kind: type) -> Any:
    """The value that a JSON file holds, a ``dict`` or a ``list``.

    Raises:
        SourceError: the file cannot be read.
        ConfigurationError: it is not JSON, or holds another kind of value.
    """
    try:
        if os.path.getsize(path) > _LONGEST_JSON:
            raise ConfigurationError(f"is longer than {_LONGEST_JSON} bytes, so it is not a list of videos", path)
        with reading(path, encoding="utf-8-sig") as file:
            if file.read(64).lstrip()[:1] != _OPENING[kind]:
                raise ConfigurationError(f"is not a JSON file that holds a {kind.__name__}", path)
            file.seek(0)
            value = json.load(file, object_pairs_hook=each_name_once)
    except OSError as error:
        raise SourceError(f"the list cannot be read ({error.strerror})", path) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"is not JSON ({error})", path) from None
    return value
