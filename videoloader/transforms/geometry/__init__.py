"""Where pixels come from: places, matrices, and resampling."""
