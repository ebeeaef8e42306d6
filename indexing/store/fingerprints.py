"""Whether a video is still the one that was indexed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from videoloader.errors import VideoLoaderError
from videoloader.indexing.sources import open_source
from videoloader.indexing.sources.folder import folder_fingerprint
from videoloader.indexing.sources.state import state_of_file


def fingerprint_of(source: str) -> str | None:
    """A text that changes when the video does. None where there is no such source.

    Files and folders cost one look at the file system; a folder's text changes when files come, go or are renamed,
    and reading tells of one that was written anew. Other sources are opened, remote ones asked.
    """
    with suppress(OSError, ValueError):
        status = os.stat(source)
        is_folder = stat.S_ISDIR(status.st_mode)
        return folder_fingerprint(status.st_mtime_ns) if is_folder else state_of_file(status).fingerprint
    with suppress(VideoLoaderError):
        return open_source(source).fingerprint
    return None
