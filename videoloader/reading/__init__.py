"""From frame numbers to pixels of one video: plan, read packets, decode, convert."""
