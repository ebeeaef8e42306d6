"""The report of a check, written during the check so that the next one can resume."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from videoloader import __version__
from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.sources.regular_file import open_regular, replacing
from videoloader.indexing.store.fingerprints import fingerprint_of
from videoloader.verification.report import FileReport, VerifyReport

# The file is rewritten after this many seconds, and at least this many times as long as writing takes.
_SECONDS, _TIMES_AS_LONG = 5.0, 20


class CheckReport:
    """The results of a check so far.

    Args:
        paths: videos to be checked, each once.
        device: name of the device that reads them.
        file: path of the report; None keeps it in memory.
    """

    def __init__(self, paths: Iterable[str], device: str, file: Path | None) -> None:
        self._known: dict[str, dict[str, Any] | None] = dict.fromkeys(paths)
        self._device, self._file = device, file
        self._next = 0.0

    def take_over(self) -> int:
        """Take over results of an earlier check by this version and device, for videos that have not changed.

        Returns:
            The number of videos that need no check.

        Raises:
            SourceError: the file cannot be read.
            ConfigurationError: it is not a report.
        """
        assert self._file is not None
        if not self._file.exists():
            return 0
        try:
            with open(self._file, "rb", opener=open_regular) as file:
                told = json.load(file)
            if (told["videoloader"], told["device"]) != (__version__, self._device):
                return 0
            for each in told["files"]:
                path, fingerprint = each["path"], each["fingerprint"]
                FileReport.from_dict(each)
                if path in self._known and fingerprint and fingerprint == fingerprint_of(path):
                    self._known[path] = each
        except OSError as error:
            raise SourceError(f"the report cannot be read ({error.strerror})", str(self._file)) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigurationError("is no report of videoloader check", str(self._file)) from None
        return len(self._known) - len(self.missing)

    @property
    def missing(self) -> list[str]:
        """The videos that are still to be checked."""
        return [path for path, known in self._known.items() if known is None]

    def add(self, path: str, fingerprint: str | None, report: FileReport) -> None:
        """Add the result for a video, with its fingerprint from before the check."""
        self._known[path] = {"path": path, "fingerprint": fingerprint, **report.to_dict()}
        if self._file is not None and time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write the file atomically.

        Raises:
            SourceError: it cannot be written.
        """
        if self._file is None:
            return
        begin = time.monotonic()
        try:
            with replacing(str(self._file)) as file:
                file.write(json.dumps(self.to_dict(), indent=1).encode())
        except OSError as error:
            raise SourceError(f"the report cannot be written ({error.strerror})", str(self._file)) from None
        now = time.monotonic()
        self._next = now + max(_SECONDS, _TIMES_AS_LONG * (now - begin))

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; ``complete`` is true once all videos were checked."""
        files = [known for known in self._known.values() if known is not None]
        complete = len(files) == len(self._known)
        return {
            "videoloader": __version__,
            "device": self._device,
            "complete": complete,
            "ok": complete and all(each["ok"] for each in files),
            "files": files,
        }

    def report(self) -> VerifyReport:
        """The report for people."""
        return VerifyReport(tuple(FileReport.from_dict(known) for known in self._known.values() if known is not None))
