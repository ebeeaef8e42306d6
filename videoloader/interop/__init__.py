"""Bridges to other frameworks; each is imported by name and needs its own extra."""
