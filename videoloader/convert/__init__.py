"""Convert decoded pictures to RGB in batch slots, with crop, resize, flip, number type and layout, in one pass."""
