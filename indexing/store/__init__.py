"""Keep the indexes of a whole data set in one SQLite file, built once and shared by all processes."""
