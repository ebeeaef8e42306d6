"""Contact sheets of frames, objects in notebooks, and progress lines of loops over batches."""
