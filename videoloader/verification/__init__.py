"""Verify videos: decode everything in order, and compare every other way of reading with that."""

from videoloader.verification.report import FileReport, VerifyReport
from videoloader.verification.verify_source import verify

__all__ = ["FileReport", "VerifyReport", "verify"]
