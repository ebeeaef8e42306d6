"""Verification: all of a video decoded in order, and read in every other way."""

from videoloader.verification.report import FileReport, VerifyReport
from videoloader.verification.verify_source import verify

__all__ = ["FileReport", "VerifyReport", "verify"]
