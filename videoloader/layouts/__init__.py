"""Public data sets in the files that they are published in."""
