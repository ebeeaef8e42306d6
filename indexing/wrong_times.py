"""Detect container times that contradict the order in which a decoder outputs pictures.

The tables are searched for signs of wrong times. Sound files show none, so they cost nothing more. Around a sign,
packets are decoded; only if their pictures come out in another order than their times say is the whole video decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import av.error
import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.display_order import Places
from videoloader.indexing.bitstream.nal import H264_IDR, MOST_HELD
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.bitstream.picture_kinds import is_b_picture
from videoloader.indexing.bitstream.random_access import has_unit
from videoloader.indexing.decoder import make_packet, open_decoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import is_random_access_at, read_packet
from videoloader.indexing.limits import count_decoded_packet
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.stream_info import StreamInfo

# If nothing is reordered: how many of the first and of the smallest packets are examined, and bytes of each.
_LOOKED_AT, _SLICE_HEAD = 4, 256
_LOOKED_AT_IN_STRETCHES = 2
# The shortest stretch of packets in decode order that is examined, as bytes of an array.
_STRETCH = bytes([True]) * (MOST_HELD + 1)
_WITH_B_PICTURES = ("h264", "hevc", "vvc", "mpeg1video", "mpeg2video", "mpeg4")
# Videos with at most this many packets are examined as a whole.
_FEW_PACKETS = 8
# Maximum number of suspicious places that are examined, spread over the video, and of open GOPs' keyframes.
_MOST_PLACES, _MOST_KEYFRAMES = 4, 4
_HEAD = 4 << 10
# Maximum number of pictures that a decoder holds back, if headers do not say; zero for all other codecs.
_DEEPEST = {**dict.fromkeys(("mpeg1video", "mpeg2video", "mpeg4", "vc1", "wmv3", "rv30", "rv40", "svq3"), 1), "vvc": 16}
# Maximum number of frames by which decoding lags behind display, and the share of steps that may be irregular.
_LONGEST_LAG, _FEW = 4, 0.25
# Error in units with which containers round times.
_ROUNDING = 1
# Codecs whose packets may show nothing.
_WITH_HIDDEN = ("vp8", "vp9", "av1")
_H264_BASELINE = b"\x42"  # profile_idc of a profile without B pictures
# Types of NAL units of pictures that none decoded later is shown before: IDR, in HEVC without leading pictures.
_SHOWN_FIRST = {"h264": (H264_IDR,), "hevc": (20,)}

Signs = list[tuple[int, int]]


def times_are_wrong(
    index: VideoIndex,
    source: ByteSource,
    dts: npt.NDArray[np.int64] | None = None,
    order: npt.NDArray[np.int64] | None = None,
) -> bool:
    """Whether pictures come out of a decoder in another order than their packets' times say.

    Args:
        index: index made from a container's times, with packets that are byte ranges.
        source: source of the same video.
        dts: int64[P], decode times of the packets in the same units, if the container has any.
        order: int64[P], the packets in the order of their times, if that is known.
    """
    if index.stream.encrypted or len(index.packet_size) < 2:
        return False
    if not index.stream.reorder_depth:
        signs = _reordered(index, source)
    else:
        order = index.packet_pts.argsort(kind="stable") if order is None else order
        signs = _reordered_in_stretches(index, source, order)
        if not _is_plainly_sound(index, order):
            # So few times have no rhythm that could be broken.
            few = len(index.packet_size) <= _FEW_PACKETS
            signs += [(0, len(index.packet_size) - 1)] if few else _signs(index, source, dts, order)
    runs = [_run_around(index, source, *sign) for sign in signs]
    return any(_comes_in_another_order(index, source, *run) for run in _merged(runs))


def _is_plainly_sound(index: VideoIndex, order: npt.NDArray[np.int64]) -> bool:
    """Whether frames come evenly, GOPs follow each other, and reordering fits the headers, as in most files."""
    # argmin takes a fifth of the time of min, and tobytes a fifth of that of all: a video is indexed in 0.2 ms.
    times = index.packet_pts[order]
    steps = times[1:] - times[:-1]
    shortest, longest = int(steps[steps.argmin()]), int(steps[steps.argmax()])
    if shortest <= 0 or longest - shortest > shortest // 4:
        return False
    if longest - shortest > 2 * _ROUNDING and _out_of_step(steps).any():
        return False
    keys = index.packet_key.nonzero()[0]
    # All packets before a keyframe are shown before it, and all after it are shown after it.
    expected = keys.tobytes()
    closed = order[keys].tobytes() == expected == np.maximum.accumulate(order)[keys].tobytes()
    return closed and index.stream.reorder_depth <= deepest_reordering(index.stream)


def _reordered(index: VideoIndex, source: ByteSource) -> Signs:
    """Return a (first, last packet) for each configuration whose pictures may be reordered though its times are not."""
    signs: Signs = []
    for number in range(len(index.stream.codec_configs)):
        # If there are B pictures, they are among the first packets, and usually the smallest.
        if _may_reorder(index, number) and len(packets := (index.packet_config == number).nonzero()[0]):
            signs += _sign_of_reordering(index, source, [*_smallest(index, packets, _LOOKED_AT), *packets[:_LOOKED_AT]])
    return signs


def _reordered_in_stretches(index: VideoIndex, source: ByteSource, order: npt.NDArray[np.int64]) -> Signs:
    """Do the same for stretches whose times are in decode order. Encoders also make such stretches of still scenes."""
    if index.stream.codec not in _WITH_B_PICTURES:
        return []
    stays = order == np.arange(len(order))
    if _STRETCH not in stays.tobytes():
        return []
    moved = np.concatenate(([-1], (~stays).nonzero()[0], [len(order)]))
    longest = (moved[1:] - moved[:-1]).argsort()[: -_MOST_PLACES - 1 : -1]
    signs: Signs = []
    for each in longest.tolist():
        packets = np.arange(moved[each] + 1, moved[each + 1])
        if len(packets) > MOST_HELD and _may_reorder(index, int(index.packet_config[packets[-1]])):
            signs += _sign_of_reordering(index, source, _smallest(index, packets, _LOOKED_AT_IN_STRETCHES))
    return signs


def _may_reorder(index: VideoIndex, number: int) -> bool:
    """Whether a configuration's parameter sets permit reordering."""
    codec, config = index.stream.codec, index.stream.codec_configs[number]
    if codec not in _WITH_B_PICTURES or (codec == "h264" and config[:1] == b"\1" and config[1:2] == _H264_BASELINE):
        return False
    only = len(index.stream.codec_configs) == 1
    picture = picture_format(index.stream if only else replace(index.stream, codec_configs=(config,)))
    stated = picture.reordered if picture else None
    return stated != 0 and not (codec == "hevc" and stated is None)


def _smallest(index: VideoIndex, packets: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    order = np.argpartition(index.packet_size[packets], min(count, len(packets)) - 1)
    return packets[order[:count]]


def _sign_of_reordering(index: VideoIndex, source: ByteSource, packets: Iterable[int]) -> Signs:
    """Return the first of these packets that is a B picture, as a sign. HEVC and VVC may reorder others, too."""
    codec, configs = index.stream.codec, index.stream.codec_configs
    for packet in dict.fromkeys(map(int, packets)):
        config = configs[index.packet_config[packet]]
        if codec in ("hevc", "vvc") or is_b_picture(codec, config, read_packet(index, source, packet, _SLICE_HEAD)):
            return [(packet, packet)]
    return []


def _signs(
    index: VideoIndex, source: ByteSource, dts: npt.NDArray[np.int64] | None, order: npt.NDArray[np.int64]
) -> Signs:
    """Return (first, last packet) of places with a suspicious order of times."""
    pts = index.packet_pts
    shown = np.arange(len(pts))
    if index.stream.codec in _WITH_HIDDEN:
        # In other codecs every packet has a picture, even if an edit list leaves it out.
        shown, order = index.packet_has_frame.nonzero()[0], order[index.packet_has_frame[order]]
    times = pts[order]
    steps = times[1:] - times[:-1]
    strange = (steps == 0) | _out_of_step(steps)
    if dts is not None and len(steps):
        strange |= _breaks_the_rhythm(steps, dts[1:] - dts[:-1])
    places = strange.nonzero()[0]
    if len(places) > _MOST_PLACES:
        places = places[np.linspace(0, len(places) - 1, _MOST_PLACES).astype(np.int64)]
    signs = [(int(order[at : at + 2].min()), int(order[at : at + 2].max())) for at in places.tolist()]
    # A picture waits for more others than a decoder holds back.
    late, deepest = shown.searchsorted(order) - np.arange(len(order)), deepest_reordering(index.stream)
    if late.max(initial=0) > deepest:
        last = int(order[late.argmax()])
        signs.append((max(last - deepest - 1, 0), last))
    keys = index.packet_key.nonzero()[0]
    # A picture is decoded before a keyframe but shown after it.
    overtaken = keys[np.maximum.accumulate(pts)[keys] > pts[keys]]
    signs += [(int(pts[:key].argmax()), key) for key in overtaken[:1].tolist()]
    later = np.minimum.accumulate(pts[::-1])[::-1]
    leading = keys[later[keys] < pts[keys]][:_MOST_KEYFRAMES]
    signs += [(key, key + int(pts[key:].argmin())) for key in leading.tolist() if _is_shown_first(index, source, key)]
    return signs


def _out_of_step(steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Find the steps from frame to frame that do not fit the others, bool[N - 1]; none if steps vary much.

    A wrong time usually lies between two others, and so close to one of them. Frames that are left out make longer
    steps, which are multiples of the usual step if that is exact.
    """
    if not len(steps):
        return np.zeros(0, np.bool_)
    usual = int(np.partition(steps, len(steps) // 2)[len(steps) // 2])
    away = np.abs(steps - usual)
    if _share(away > _ROUNDING) < _FEW and usual > 2 * _ROUNDING:
        return np.abs((steps + usual // 2) % usual - usual // 2) > _ROUNDING
    if _share(away > usual // 4) < _FEW:
        return 2 * steps < usual
    return np.zeros(len(steps), np.bool_)


def _share(those: npt.NDArray[np.bool_]) -> float:
    return np.count_nonzero(those) / len(those)


def _breaks_the_rhythm(steps: npt.NDArray[np.int64], decode_steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Find the steps between frames in display order that do not fit the steps between packets, bool[N - 1].

    Packets are decoded in the rhythm in which frames are shown, which may lag a few frames behind. A picture with a
    wrong time leaves a hole where it should be. If no lag makes most steps fit, nothing can be said, unless most
    packets are decoded evenly.
    """
    odd = np.zeros(len(steps), np.bool_)
    # Up to a quarter of the usual step, since containers round times, and cameras measure them.
    lower, upper = (len(decode_steps) - 1) // 2, len(decode_steps) // 2
    ordered = np.partition(decode_steps, (lower, upper))
    usual = int((ordered[lower] + ordered[upper]) / 2)
    slack = max(usual // 4, 1)
    even = _share(np.abs(decode_steps - usual) <= slack)
    if even == 1:
        # The first and the last frame may be shown for longer.
        odd[1:-1] = np.abs(steps[1:-1] - usual) > slack
    elif len(steps) == len(decode_steps):
        best, fewest = odd, math.inf
        for lag in range(min(_LONGEST_LAG + 1, len(steps))):
            misfits = np.abs(steps[: len(steps) - lag] - decode_steps[lag:]) > slack
            if (share := _share(misfits)) < fewest:
                best, fewest = misfits, share
            if not share:
                break
        if fewest < _FEW or even > 1 - _FEW:
            odd[: len(best)] = best
    return odd


def deepest_reordering(stream: StreamInfo) -> int:
    """Return the number of pictures that a stream's decoder may have to hold back."""
    picture = picture_format(stream)
    if picture and picture.reordered is not None:
        return picture.reordered
    if picture and picture.buffering:
        return max(picture.buffering)
    return _DEEPEST.get(stream.codec, 0)


def _is_shown_first(index: VideoIndex, source: ByteSource, key: int) -> bool:
    """Whether no picture decoded after this keyframe may be shown before it, as with IDR pictures of H.264 and HEVC."""
    codec, head = index.stream.codec, read_packet(index, source, key, _HEAD)
    return codec in _SHOWN_FIRST and has_unit(codec, index.config_at(key), head, _SHOWN_FIRST[codec])


def _run_around(index: VideoIndex, source: ByteSource, first: int, last: int) -> tuple[int, int]:
    """Return (first, stop) of the packets to decode in order to see the order of these packets' pictures."""
    start = _start_before(index, source, max(first - MOST_HELD, 0))
    # Pictures that are decoded after a keyframe and shown before it need the keyframe before that one.
    if start and index.packet_pts[start : last + 1].min() < index.packet_pts[start]:
        start = _start_before(index, source, start - 1)
    return start, min(last + 1 + MOST_HELD, len(index.packet_size))


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort runs of packets, and merge those with common packets."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(runs):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _comes_in_another_order(index: VideoIndex, source: ByteSource, start: int, stop: int) -> bool:
    """Whether the pictures of a run of packets come out of a decoder in another order than their times say."""
    order = _order_by_headers(index, source, start, stop) or _order_by_decoding(index, source, start, stop)
    times = index.packet_pts[order]
    return bool((np.diff(order)[np.diff(times) == 0] < 0).any() or (np.diff(times) < 0).any())


def _order_by_headers(index: VideoIndex, source: ByteSource, start: int, stop: int) -> list[int]:
    """Return the order of packets by their headers; empty if they do not tell."""
    configs, used = index.stream.codec_configs, index.packet_config
    record = configs[used[start]]
    places = Places(index.stream.codec, record)
    for number in range(start, stop):
        if places.known is None:
            return []
        places.add(read_packet(index, source, number, _HEAD), goes_on=configs[used[number]] == record)
    return [number for _, number in sorted(zip(places.known or (), range(start, stop), strict=False))]


def _order_by_decoding(index: VideoIndex, source: ByteSource, start: int, stop: int) -> list[int]:
    """Return the order in which pictures come out of a decoder; empty if packets are damaged."""
    # As if nothing were known about the order, so that the decoder holds back as much as it can.
    unknown = replace(index, stream=replace(index.stream, reorder_depth=MOST_HELD))
    context = open_decoder(unknown, start)
    came_out: list[int] = []
    fed = 0
    try:
        for number in range(start, stop):
            data = read_packet(index, source, number)
            fed += len(data)
            if fed > source.size:
                break
            count_decoded_packet()
            packet = make_packet(index, data, number, number - 1 if number > start else None)
            came_out += [frame.pts for frame in context.decode(packet) if frame.pts is not None]
        came_out += [frame.pts for frame in context.decode(None) if frame.pts is not None]
    except av.error.FFmpegError:
        return []
    return came_out


def _start_before(index: VideoIndex, source: ByteSource, packet: int) -> int:
    """Return the last true keyframe at or before a packet; the first packet if there is none."""
    keys = index.packet_key[: packet + 1].nonzero()[0][::-1].tolist()
    return next((int(key) for key in keys if is_random_access_at(index, source, key)), 0)
