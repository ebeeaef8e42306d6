"""``LazyFolder``: a folder of image files of which only few are looked at."""

from __future__ import annotations

from videoloader.indexing.sources.folder import FolderSource

# Bytes that are held: more than the files of most clips have.
_MOST_HELD = 64 << 20


class LazyFolder(FolderSource):
    """A folder whose files are read as a whole, each once, when anything in them is asked for.

    ``index_images`` looks at the first file alone, since a clip needs few files of a long folder.

    Args:
        listed: the folder. It must be listed again once a file was found to have changed (``is_current``).
        alike: numbers of files that were found to be like the first one. ``check_files`` adds to them.

    Attributes:
        listed, alike: as given.
    """

    def __init__(self, listed: FolderSource, alike: set[int]) -> None:
        vars(self).update(vars(listed))
        self.listed = listed
        self.alike = alike
        self._held: dict[int, bytes] = {}
        self._room = _MOST_HELD

    def hold(self, number: int) -> bool:
        """Read a file, if there is room, and return whether its bytes are held from now on."""
        if number not in self._held:
            whole = self.offsets[number + 1] - self.offsets[number]
            if whole > self._room:
                return False
            self._held[number] = self.listed._read_file(number, 0, whole)
            self._room -= whole
        return True

    def _read_file(self, number: int, position: int, size: int) -> bytes:
        if self.hold(number):
            return self._held[number][position : position + size]
        return self.listed._read_file(number, position, size)
