"""Whether a video is still the one that was indexed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from videoloader.errors import VideoLoaderError
from videoloader.indexing.sources import open_source
from videoloader.indexing.sources.folder import folder_fingerprint, split_times, time_of_change
from videoloader.indexing.sources.state import state_of_file


def fingerprint_of(source: str) -> str | None:
    """A text that changes when the video does. None where there is no such source.

    Files and folders cost one look at the file system; a folder's text changes when files come, go or are renamed, or
    its list of times is written, and reading tells of one that was written anew. Other sources are opened, remote ones
    asked.
    """
    with suppress(OSError, ValueError):
        path, times = split_times(source)
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            listed = time_of_change(os.path.join(path, times["timestamps"])) if "timestamps" in times else None
            return folder_fingerprint(status.st_mtime_ns, listed)
        if not times:
            return state_of_file(status).fingerprint
    with suppress(VideoLoaderError):
        return open_source(source).fingerprint
    return None
