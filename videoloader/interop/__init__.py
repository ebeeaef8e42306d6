"""Bridges to other systems; each is imported by name and needs its own extra."""
