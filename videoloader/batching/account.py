"""Keeps a loader's statistics and its list of unreadable files, and warns where much is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from videoloader.batching.stats import LoaderStats
from videoloader.errors import SourceError, counted, warn_user

# The most unreadable files that are listed.
_MOST_LISTED = 65536
# A warning is given above this share of padding, at the end of a loop or after so many clips.
_MUCH_PADDING = 0.25
_ENOUGH_CLIPS = 256


class LoaderAccount:
    """The account of one loader, over all its loops, each of which is a ``with`` block.

    Args:
        left_out: (path, reason) of rows that cannot be used.
        expects_padding: whether the user asked for padding, as by padding clips to the longest.

    Attributes:
        stats: statistics of the batches yielded so far.
        unreadable: (path, reason) of what was left out or replaced: rows, and files of clips with their first reason.
    """

    # Stored on the class, since module globals may be None at interpreter exit.
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, left_out: Iterable[tuple[str, str]] = (), *, expects_padding: bool = False) -> None:
        self.stats = LoaderStats()
        self.unreadable = list(dict.fromkeys(left_out))
        self._listed = {path for path, _ in self.unreadable}
        self._padding_told = expects_padding
        self._begin_loop()

    def _begin_loop(self) -> None:
        self._before, self._known = self.stats, len(self.unreadable)

    def __enter__(self) -> None:
        self._begin_loop()

    def __exit__(self, *error: object) -> None:
        if not self._is_finalizing():
            self._end_loop()

    def leave_out(self, path: str, reason: str) -> None:
        """Record the file of a clip that cannot be made."""
        if path not in self._listed and len(self._listed) < _MOST_LISTED:
            self._listed.add(path)
            self.unreadable.append((path, reason))

    def add(self, stats: LoaderStats) -> None:
        """Add the cost of a batch."""
        self.stats += stats
        if self.stats.clips >= _ENOUGH_CLIPS:
            self._tell_of_padding()

    def raise_if_nothing(self) -> None:
        """Raise SourceError if the last loop left clips out and yielded none."""
        loop = self.stats - self._before
        if loop.skipped and not loop.clips:
            path, reason = (self.unreadable[self._known :] or self.unreadable)[0]
            raise nothing_made(loop.skipped, path, reason)

    def _end_loop(self) -> None:
        """Warn about what a loop could not read, unless all of it was known before."""
        new, loop = self.unreadable[self._known :], self.stats - self._before
        if new:
            path, reason = new[0]
            warn_user(
                f"clips of {counted(len(new), 'file')} cannot be made: {loop.skipped} are left out, "
                f"{loop.replaced} replaced, {loop.clips} given out; unreadable lists the files "
                f"(the first: {path}: {reason})"
            )
        self._tell_of_padding()

    def _tell_of_padding(self) -> None:
        stats = self.stats
        if not self._padding_told and stats.made_up > _MUCH_PADDING * stats.shown:
            self._padding_told = True
            clips = counted(stats.clips, "clip")
            warn_user(
                f"{stats.made_up_share:.0%} of the frames of {clips} are made up by padding (mask False): "
                "take a smaller length or stride, another pad, or leave short videos out with data.where(min_frames=…)"
            )


def nothing_made(clips: int, path: str, reason: str) -> SourceError:
    """The error for an epoch in which no clip can be made; it names the first."""
    what = f"of the epoch's {counted(clips, 'clip')} none can be made"
    return SourceError(f"{what}; the first: {reason}", path)
