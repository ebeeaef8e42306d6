"""Plan which packets to read for the wanted frames, and read them."""
