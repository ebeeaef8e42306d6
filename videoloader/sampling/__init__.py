"""Frame modes: which frames of a video make a clip."""
