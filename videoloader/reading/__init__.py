"""Read clips of one video: plan, read packets, decode, and convert frames to pixels."""
