"""The report of a check: written while the check goes on, so that the next one need not begin anew."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from videoloader import __version__
from videoloader.errors import ConfigurationError, SourceError
from videoloader.indexing.store.fingerprints import fingerprint_of
from videoloader.verification.report import FileReport, VerifyReport

# The file is written again when this many seconds have passed, and at least this many times as long as that takes.
_SECONDS, _TIMES_AS_LONG = 5.0, 20


class CheckReport:
    """What is known of some videos so far.

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
        """Take from the file what an earlier check, by this version and device, found of videos as they are now.

        Returns:
            How many videos need no check.

        Raises:
            SourceError: the file cannot be read.
            ConfigurationError: it is no report.
        """
        assert self._file is not None
        if not self._file.exists():
            return 0
        try:
            told = json.loads(self._file.read_text())
            if (told["videoloader"], told["device"]) != (__version__, self._device):
                return 0
            for each in told["files"]:
                path = each["path"]
                fingerprint = each["fingerprint"]
                FileReport.from_dict(each)
                if path in self._known and fingerprint and fingerprint == fingerprint_of(path):
                    self._known[path] = each
        except OSError as error:
            raise SourceError(f"the report cannot be read ({error.strerror})", str(self._file)) from None
        except (ValueError, KeyError, TypeError):
            raise ConfigurationError("is no report of videoloader check", str(self._file)) from None
        return len(self._known) - len(self.missing)

    @property
    def missing(self) -> list[str]:
        """The videos that are still to be checked."""
        return [path for path, known in self._known.items() if known is None]

    def add(self, path: str, fingerprint: str | None, report: FileReport) -> None:
        """Take in what was found of a video that had this fingerprint before."""
        self._known[path] = {"path": path, "fingerprint": fingerprint, **report.to_dict()}
        if self._file is not None and time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write the file: all of it, or, if that fails, what was there before.

        Raises:
            SourceError: it cannot be written.
        """
        if self._file is None:
            return
        begin = time.monotonic()
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}.part")
        try:
            beside.write_text(json.dumps(self.to_dict(), indent=1))
            beside.replace(self._file)
        except OSError as error:
            raise SourceError(f"the report cannot be written ({error.strerror})", str(self._file)) from None
        finally:
            beside.unlink(missing_ok=True)
        now = time.monotonic()
        self._next = now + max(_SECONDS, _TIMES_AS_LONG * (now - begin))

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON holds it; ``complete`` once all videos were checked."""
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
