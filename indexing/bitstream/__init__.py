"""The codecs' own headers: what they tell of packets and pictures."""
