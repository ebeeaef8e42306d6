"""Index MPEG transport streams (.ts, .m2ts) in one pass over their bytes, and read packets by position."""
