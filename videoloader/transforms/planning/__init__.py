"""From a list of transforms to what conversion and the engines carry out."""
