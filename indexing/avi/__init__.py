"""Index AVI files from their own tables."""
