"""Index MPEG transport streams (.ts, .m2ts) in one pass over their bytes, and read packets by position."""

from videoloader.indexing.mpegts.extract import read_transport_packets
from videoloader.indexing.mpegts.index import index_mpegts

__all__ = ["index_mpegts", "read_transport_packets"]
