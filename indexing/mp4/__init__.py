"""Index ISO base media and QuickTime files from their own tables."""
