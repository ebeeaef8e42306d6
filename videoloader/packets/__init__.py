"""Which packets are read for wanted frames, and what the packets themselves say."""
