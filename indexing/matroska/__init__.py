"""Index Matroska and WebM files from the headers of their blocks."""
