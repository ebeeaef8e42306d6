"""Track the decoder's configuration records and palettes as they change along a demuxed stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import av.packet
import numpy as np
import numpy.typing as npt

from videoloader.errors import UnsupportedError
from videoloader.indexing.bitstream.headers_before import HeadersBefore
from videoloader.indexing.bitstream.parameter_sets import (
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    may_have_sequence_headers,
    memory_size,
    sequence_headers,
    sets_of_record,
    units_of,
)
from videoloader.indexing.index import MOST_CONFIGURATIONS
from videoloader.indexing.stream_info import StreamInfo


class Setups:
    """The configurations of a stream that libavformat demuxes, each a record and a palette.

    Args:
        codec: codec of the stream.
        config: the record that its decoder is opened with.

    Attributes:
        brought: parameter sets of H.264 and HEVC by the packet that contains them or has a new record with them; the
            headers that keyframes of MPEG-1, 2 and 4 lack.
    """

    def __init__(self, codec: str, config: bytes) -> None:
        self.brought: dict[int, list[bytes]] = {}
        self._codec = codec
        self._record, self._palette = config, b""
        self._first_record = config
        self._known: dict[tuple[bytes, bytes], int] = {}
        self._of_packets: list[int] = []
        self._headers: set[bytes] = set()
        self._before = HeadersBefore(codec)

    def add(self, packet: av.packet.Packet[Any], payload: bytes) -> None:
        """Take in the stream's next packet and its bytes."""
        units: list[bytes] = []
        if packet.has_sidedata("palette"):
            self._palette = bytes(packet.get_sidedata("palette"))
        if packet.has_sidedata("new_extradata"):
            self._record = bytes(packet.get_sidedata("new_extradata"))
            if self._codec in WITH_PARAMETER_SETS:
                units += sets_of_record(self._codec, self._record).values()
        if self._codec in WITH_PARAMETER_SETS:
            units += units_of(self._codec, self._record, payload)
            if units:
                self.brought[len(self._of_packets)] = units
        elif self._codec in WITH_HEADERS:
            headers = sequence_headers(self._codec, payload) if may_have_sequence_headers(payload) else b""
            self._headers.add(headers)
            if headers or packet.is_keyframe:
                lacking = self._before.lacking(self._record, headers)
                if lacking and packet.is_keyframe:
                    self.brought[len(self._of_packets)] = lacking
        self._of_packets.append(self._known.setdefault((self._record, self._palette), len(self._known)))

    @property
    def has_several_headers(self) -> bool:
        """Whether packets of MPEG-1, 2 or 4 contain headers that differ from each other or from the first record."""
        if not any(self._headers):
            return False
        return len({*self._headers, sequence_headers(self._codec, self._first_record)} - {b""}) > 1

    def of_packets(self, source: str) -> npt.NDArray[np.uint8]:
        """Return the number of the configuration in force at each packet, uint8[P].

        Raises:
            UnsupportedError: there are too many configurations.
        """
        if len(self._known) > MOST_CONFIGURATIONS:
            raise UnsupportedError(
                f"changes its palette or configuration more than {MOST_CONFIGURATIONS - 1} times", source
            )
        return np.array(self._of_packets, np.uint8)

    def describe(self, stream: StreamInfo) -> StreamInfo:
        """Return the stream with all its configurations."""
        palettes = tuple(palette for _, palette in self._known)
        records = tuple(record for record, _ in self._known)
        sizes = {memory_size(self._codec, headers) for headers in self._headers if headers}
        palettes = palettes if any(palettes) else ()
        return replace(stream, codec_configs=records, palettes=palettes, size_varies=len(sizes) > 1)
