"""What the codecs' own headers tell of packets and pictures."""
