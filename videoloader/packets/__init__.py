"""The packets to read for wanted frames, and what the packets themselves say."""
