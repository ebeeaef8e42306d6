"""Read a run's packets, without those that no wanted frame depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, compress, islice, repeat

import numpy as np

from videoloader.errors import DecodeError, UnsupportedError
from videoloader.indexing.bitstream.disposable import is_disposable, names_disposable
from videoloader.indexing.bitstream.frame_num_gaps import FrameNumGaps
from videoloader.indexing.bitstream.nal import MOST_HELD, nal_length_size
from videoloader.indexing.bitstream.parameter_sets import (
    LENGTH_AND_HEADER,
    SLICES,
    WITH_HEADERS,
    WITH_PARAMETER_SETS,
    may_have_sequence_headers,
    sequence_headers,
    sets_in_packet,
)
from videoloader.indexing.bitstream.random_access import ends_sequence, has_idr
from videoloader.indexing.bitstream.references import ReferenceClosure, names_references
from videoloader.indexing.bitstream.x264_version import demands_version, x264_version
from videoloader.indexing.configurations import brings_others
from videoloader.indexing.images.index import is_jpeg
from videoloader.indexing.images.jpeg import is_cut_off
from videoloader.indexing.index import DISPOSABLE_NO, VideoIndex
from videoloader.indexing.keyframe_heads import with_sets_found
from videoloader.indexing.number_leaps import is_behind_leap
from videoloader.indexing.sources.base import NEAR, ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.packets.decode_plan import PacketBytes, Run, packet_bytes
from videoloader.packets.payloads import Payloads, check_files, read_payloads
from videoloader.packets.picture_places import confirm_ranks, with_places
from videoloader.packets.run_start import WrongIndexError, from_keyframe, without_keyframe

# Maximum bytes of packets that are held in memory to find out which of them are needed.
_LONGEST_LOOK_AHEAD = 64 << 20


def read_packets(source: ByteSource, index: VideoIndex, run: Run, *, places: bool = False) -> Iterator[PacketBytes]:
    """Yield the run's packets in decode order, without those that no wanted frame depends on.

    The plan has left out what the index knows to be disposable. Here the packets' own headers decide what else is left
    out, and whether decoding can start where the index says.

    Args:
        source: source of the video.
        index: index of the same video.
        run: run of a plan made with this index.
        places: whether packets of codecs that reorder pictures must have a ``place``; UNKNOWN_PLACE if their headers do
            not tell. Packets have no place if an earlier run has shown that ``VideoIndex.packet_rank`` gives the same
            order.

    Raises:
        WrongIndexError: decoding for a wanted frame must start earlier, a packet contains parameter sets that the index
            does not know, or H.264 pictures that others refer to are missing.
        SourceError: the source is shorter than its index says, or a folder holds other files.
        DecodeError: an image file is cut off.
        UnsupportedError: a sequence of HEVC ends inside a GOP.
    """
    if isinstance(source, FolderSource):
        check_files(source, index, run)
    codec = index.stream.codec
    all_wanted = len(run.wanted) == len(run.packets)
    wanted = [True] * len(run.packets) if all_wanted else np.isin(run.packets, run.wanted, assume_unique=True).tolist()
    pieces: Iterable[Payloads] = read_payloads(source, index, run)
    jpeg, ranks_are_right = is_jpeg(index), True
    if places and not (jpeg or index.stream.encrypted):
        pieces, ranks_are_right = confirm_ranks(index, run, pieces)
    payloads = chain.from_iterable(pieces)
    packets: Iterator[PacketBytes] = map(
        packet_bytes, zip(run.packets.tolist(), payloads, wanted, repeat(False), repeat(None), repeat(False))
    )
    if jpeg:
        return _whole_jpegs(source, packets)
    if index.stream.encrypted:
        return packets
    if not ranks_are_right:
        packets = with_places(index, run, packets)
    # In an index made by decoding, a packet may carry a part of another packet's frame. Before the first keyframe, a
    # decoder guesses which frames to give out from all the packets it is fed.
    leaves_out = not (all_wanted or index.method == "decoded" or run.packets[0] < index.first_keyframe)
    if codec in WITH_PARAMETER_SETS:
        leaves_some = leaves_out and names_disposable(codec)
        # The plan, too, leaves out packets that the index knows to be disposable.
        left_out = codec == "h264" and len(run.packets) <= run.packets[-1] - run.packets[0]
        packets = _with_sets_told(
            source,
            index,
            run,
            packets,
            leaves_out=leaves_some,
            sees_gaps=codec == "h264" and not places,
            needs_all=leaves_some or left_out,
        )
    elif codec in WITH_HEADERS:
        packets = _with_sequences_told(codec, packets)
    if index.packet_key[run.packets[0]]:
        packets = from_keyframe(index, packets)
    if codec == "h264" and run.packets[0]:
        packets = _with_x264_version(source, index, packets)
    if leaves_out and names_references(codec):
        return _referenced(index, run, packets)
    # Of codecs with parameter sets, ``_with_sets_told`` leaves packets out.
    if leaves_out and names_disposable(codec) and codec not in WITH_PARAMETER_SETS:
        return _without_disposable(index, run, packets)
    return packets


def _with_sets_told(
    source: ByteSource,
    index: VideoIndex,
    run: Run,
    packets: Iterator[PacketBytes],
    leaves_out: bool,
    sees_gaps: bool,
    needs_all: bool,
) -> Iterator[PacketBytes]:
    """Check the parameter sets and picture numbers of H.264 or HEVC packets, and set ``headers`` and ``guessed``.

    Where an H.264 picture that others refer to is missing, libavcodec uses other pictures in its place and invents
    pictures. It does not invent the same ones if packets were left out, or if decoding starts at a recovery point
    without the packets before it.

    Args:
        source, index, run: as in ``read_packets``.
        packets: the run's packets in decode order.
        leaves_out: whether to leave out H.264 packets that are neither wanted nor referred to.
        sees_gaps: whether to check the numbers of H.264 pictures.
        needs_all: whether a missing picture is an error, since packets are left out.

    Raises:
        WrongIndexError: parameter sets are not those that the index knows, or a picture is missing, so that its whole
            GOP must be decoded.
    """
    codec, configs = index.stream.codec, index.stream.codec_configs
    slices, kept = SLICES[codec], _always_kept(index, run) if leaves_out else ()
    config = length_size = recovery_point = -1
    references = 0
    numbers: FrameNumGaps | None = None
    for packet, config_here in zip(packets, index.packet_config[run.packets].tolist(), strict=True):
        number, data = packet.number, packet.data
        if config_here != config:
            if config < 0 and number and codec == "h264" and not has_idr(configs[config_here], data):
                recovery_point = number
                if _starts_behind_leap(index, source, number):
                    raise WrongIndexError(index, partial(without_keyframe, packet=number))
            config = config_here
            length_size = nal_length_size(codec, configs[config])
            numbers = FrameNumGaps(configs[config]) if sees_gaps else None
        # Most packets are a single slice, which is recognised quickly. The first byte of an H.264 slice has its
        # nal_ref_idc.
        size = len(data)
        if length_size == 4 and size > 4:
            length, header = LENGTH_AND_HEADER(data)
        elif 0 < length_size < size:
            length, header = int.from_bytes(data[:length_size], "big"), data[length_size]
        else:
            length, header = -1, 0
        if length + length_size == size and slices[header]:
            units: list[bytes] = []
            disposable = leaves_out and not header & 0x60
        else:
            units = sets_in_packet(codec, length_size, data)
            referred = length > 0 and slices[header] and header & 0x60
            disposable = leaves_out and not (units or referred) and is_disposable(codec, configs[config], data)
            ends = codec == "hevc" and index.method != "decoded" and ends_sequence(configs[config], data)
            if ends and not index.packet_key[number + 1 : number + 2].all():
                # Decoders show all pictures before the end first. No standard allows an end here.
                fault = f"a sequence ends behind packet {number}, inside a GOP, so the order of frames is not known"
                raise UnsupportedError(f"{fault}: re-encode the file", source.name)
        if units and brings_others(index, number, units):
            correct = partial(with_sets_found, source=source, packet=number, units=units)
            # A set that fits no record, or has no number, would still be unknown afterwards. It takes effect when it is
            # decoded.
            if not brings_others(correct(index), number, units):
                raise WrongIndexError(index, correct)
        missing = numbers is not None and numbers.show_missing(data)
        references += numbers is not None and numbers.is_reference
        if missing and (needs_all or recovery_point >= 0):
            # A decoder that had started earlier would have other pictures in their place.
            no_start = recovery_point if references <= MOST_HELD else -1
            correct = partial(_with_all_needed, recovery_point=recovery_point, packet=number, no_start=no_start)
            if correct(index) is not index:
                raise WrongIndexError(index, correct)
        if disposable and number not in kept:
            continue
        guessed = numbers is not None and numbers.guessed
        yield packet._replace(headers=bool(units), guessed=guessed) if units or guessed else packet


def _starts_behind_leap(index: VideoIndex, source: ByteSource, recovery_point: int) -> bool:
    """Whether picture numbers leap before a start that indexing has not checked. Remote files are never checked."""
    unknown = index.keys_from == "container" and index.byte_ranges and source.read_through <= NEAR
    if not unknown or recovery_point in index.starts_seen_right:
        return False
    if is_behind_leap(index, source, recovery_point):
        return True
    index.starts_seen_right.add(recovery_point)
    return False


def _with_all_needed(index: VideoIndex, recovery_point: int, packet: int, no_start: int) -> VideoIndex:
    """Return an index by which nothing is left out of the GOPs before and after a packet, or the same one if unchanged.

    In it, ``recovery_point`` is no keyframe if the packet is in its GOP, or if ``no_start`` names it.
    """
    disposable = index.packet_disposable.copy()
    disposable[np.isin(index.gop_of(np.arange(len(disposable))), index.gop_of([packet - 1, packet]))] = DISPOSABLE_NO
    better = replace(index, packet_disposable=disposable)
    is_no_start = recovery_point in (no_start, index.keyframe_before(packet))
    if recovery_point >= 0 and is_no_start and index.packet_key[recovery_point]:
        return better.without_keyframe(recovery_point)
    return index if (disposable == index.packet_disposable).all() else better


def _with_sequences_told(codec: str, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Mark those packets of MPEG-1, 2 or 4 that contain sequence headers."""
    for packet in packets:
        brings = may_have_sequence_headers(packet.data) and sequence_headers(codec, packet.data) != b""
        yield packet._replace(headers=True) if brings else packet


def _with_x264_version(source: ByteSource, index: VideoIndex, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Yield a run's packets; for 4:4:4, start with the version note from the stream's first packet.

    Up to version 151, x264 coded 4:4:4 wrongly. If libavcodec knows the version, it decodes such streams as intended,
    and otherwise into garbage.
    """
    first = next(packets)
    config = index.config_at(first.number)
    if demands_version(config, first.data):
        ((data,),) = read_payloads(source, index, Run(np.zeros(1, np.int64), np.zeros(0, np.int64)))
        first = first._replace(data=x264_version(data, config) + bytes(first.data))
    return chain((first,), packets)


def _whole_jpegs(source: ByteSource, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    for packet in packets:
        if is_cut_off(packet.data):
            raise DecodeError(
                f"packet {packet.number}, a JPEG file, is cut off: it has no end marker", source.name, packet.number
            )
        yield packet


def _without_disposable(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    codec, config = index.stream.codec, index.config_at(run.packets[0])
    kept = _always_kept(index, run)
    return (
        packet
        for packet in packets
        if packet.headers or packet.number in kept or not is_disposable(codec, config, packet.data)
    )


def _always_kept(index: VideoIndex, run: Run) -> set[int]:
    """Return the packets of a run that are never left out: the first, the wanted ones, and those the index needs."""
    needed = run.packets[index.packet_disposable[run.packets] == DISPOSABLE_NO]
    return {int(run.packets[0]), *run.wanted.tolist(), *needed.tolist()}


def _referenced(index: VideoIndex, run: Run, packets: Iterator[PacketBytes]) -> Iterator[PacketBytes]:
    """Yield the packets that the wanted ones refer to, directly or not. Packets are read ahead to find out which."""
    closure = ReferenceClosure(index.stream.codec, index.config_at(run.packets[0]))
    bounds = np.flatnonzero(np.diff(np.cumsum(index.packet_size[run.packets], dtype=np.int64) // _LONGEST_LOOK_AHEAD))
    for size in np.diff(bounds + 1, prepend=0, append=len(run.packets)).tolist():
        ahead = list(islice(packets, size))
        more_follow = ahead[-1].number != run.packets[-1]
        needed = closure.needed(
            [packet.data for packet in ahead], [packet.wanted for packet in ahead], more_follow=more_follow
        )
        yield from compress(ahead, needed)
