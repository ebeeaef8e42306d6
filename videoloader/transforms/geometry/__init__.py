"""The origin of pixels: places, matrices, and resampling."""
