"""Read the codecs' own headers: what they say of packets and pictures."""
