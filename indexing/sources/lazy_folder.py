"""``LazyFolder``: a folder of image files of which only few are looked at."""

from __future__ import annotations

from videoloader.indexing.sources.folder import FolderSource

# Bytes that are held: more than the files of most clips have.
_MOST_HELD = 64 << 20


class LazyFolder(FolderSource):
    """A folder whose files are read as a whole, each once, when anything in them is asked for.

    ``index_images`` looks at the first file alone, since a clip needs few files of a long folder.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._held: dict[int, bytes] = {}
        self._room = _MOST_HELD

    def _read_file(self, number: int, position: int, size: int) -> bytes:
        held = self._held.get(number)
        if held is None:
            whole = self.offsets[number + 1] - self.offsets[number]
            if whole > self._room:
                return super()._read_file(number, position, size)
            held = self._held[number] = super()._read_file(number, 0, whole)
            self._room -= whole
        return held[position : position + size]
