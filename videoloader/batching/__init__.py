"""From clips to batches: which clips, decoded together, stacked, transformed."""
