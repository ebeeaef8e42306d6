"""Times in a container that cannot be those a decoder gives pictures out by: looked for in tables, settled by decoding.

Tables of sound files show no sign of it, and cost nothing more. Where there is one, the packets around it are decoded,
and only if their pictures come in another order than their times say, the whole video is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import av.error
import numpy as np
import numpy.typing as npt

from videoloader.indexing.bitstream.display_order import Places
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.picture import picture_format
from videoloader.indexing.bitstream.picture_kinds import is_b_picture
from videoloader.indexing.bitstream.random_access import has_idr
from videoloader.indexing.decoder import make_packet, open_decoder
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import is_random_access_at, read_packet
from videoloader.indexing.limits import count_decoded_packet
from videoloader.indexing.sources import ByteSource
from videoloader.indexing.stream_info import StreamInfo

# Packets whose slices are looked at where nothing is reordered, of the first and of the smallest; bytes of each.
_LOOKED_AT, _SLICE_HEAD = 4, 256
_LOOKED_AT_IN_STRETCHES = 2
_WITH_B_PICTURES = ("h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4")
# Videos of at most so many packets are looked at as a whole.
_FEW_PACKETS = 8
# So many packets after the last in doubt are decoded too: more than any decoder holds back.
_HELD_BACK = 16
# Strange places that are looked into, spread over the video, and keyframes of open GOPs whose kind is looked at.
_MOST_PLACES, _MOST_KEYFRAMES = 4, 4
_HEAD = 4 << 10
# How many pictures a decoder holds back at most, where the headers do not say: of all other codecs none.
_DEEPEST = {**dict.fromkeys(("mpeg1video", "mpeg2video", "mpeg4", "vc1", "wmv3", "rv30", "rv40", "svq3"), 1), "vvc": 16}
# How many frames the rhythm of decoding lags behind that of display at most, and which share of steps may not fit.
_LONGEST_LAG, _FEW = 4, 0.25
# How far containers round times, units.
_ROUNDING = 1
# Codecs with packets that show nothing.
_WITH_HIDDEN = ("vp8", "vp9", "av1")
_H264_BASELINE = b"\x42"  # profile_idc of a profile without B pictures
_HEVC_IDR_WITHOUT_LEADING = 20

Signs = list[tuple[int, int]]


def times_are_wrong(
    index: VideoIndex,
    source: ByteSource,
    dts: npt.NDArray[np.int64] | None = None,
    order: npt.NDArray[np.int64] | None = None,
) -> bool:
    """Whether pictures come out of a decoder in another order than that of their packets' times.

    Args:
        index: made from a container's times, of packets that are byte ranges.
        source: source of the same video.
        dts: int64[P], decode times of the packets in the same units, where the container has any.
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
            # So few times have no rhythm that one could break.
            few = len(index.packet_size) <= _FEW_PACKETS
            signs += [(0, len(index.packet_size) - 1)] if few else _signs(index, source, dts, order)
    runs = [_run_around(index, source, *sign) for sign in signs]
    return any(_comes_in_another_order(index, source, *run) for run in _merged(runs))


def _is_plainly_sound(index: VideoIndex, order: npt.NDArray[np.int64]) -> bool:
    """Whether frames come evenly, GOPs after each other, and within what headers allow; true of most files."""
    # argmin takes a fifth of the time of min, tobytes a fifth of that of all: a video is indexed in 0.2 ms.
    times = index.packet_pts[order]
    steps = times[1:] - times[:-1]
    shortest, longest = int(steps[steps.argmin()]), int(steps[steps.argmax()])
    if shortest <= 0 or longest - shortest > shortest // 4:
        return False
    if longest - shortest > 2 * _ROUNDING and _out_of_step(steps).any():
        return False
    keys = index.packet_key.nonzero()[0]
    # All packets before a keyframe are shown before it, and none after it.
    expected = keys.tobytes()
    closed = order[keys].tobytes() == expected == np.maximum.accumulate(order)[keys].tobytes()
    return closed and index.stream.reorder_depth <= deepest_reordering(index.stream)


def _reordered(index: VideoIndex, source: ByteSource) -> Signs:
    """(first, last packet) where pictures may be reordered though times are not: one place of each configuration."""
    signs: Signs = []
    for number in range(len(index.stream.codec_configs)):
        packets = np.flatnonzero(index.packet_config == number)
        # Where there are B pictures, they are among the first packets, and mostly the smallest.
        if len(packets) and _may_reorder(index, number):
            signs += _sign_of_reordering(index, source, [*_smallest(index, packets, _LOOKED_AT), *packets[:_LOOKED_AT]])
    return signs


def _reordered_in_stretches(index: VideoIndex, source: ByteSource, order: npt.NDArray[np.int64]) -> Signs:
    """The same where only stretches of a video have times in decode order. Encoders make those of still scenes, too."""
    if index.stream.codec not in _WITH_B_PICTURES:
        return []
    moved = np.concatenate(([-1], (order != np.arange(len(order))).nonzero()[0], [len(order)]))
    steps = moved[1:] - moved[:-1]
    if steps[steps.argmax()] <= _HELD_BACK + 1:
        return []
    longest = steps.argsort()[: -_MOST_PLACES - 1 : -1]
    signs: Signs = []
    for each in longest.tolist():
        packets = np.arange(moved[each] + 1, moved[each + 1])
        if len(packets) > _HELD_BACK and _may_reorder(index, int(index.packet_config[packets[-1]])):
            signs += _sign_of_reordering(index, source, _smallest(index, packets, _LOOKED_AT_IN_STRETCHES))
    return signs


def _may_reorder(index: VideoIndex, number: int) -> bool:
    """Whether a configuration's parameter sets leave room for reordering."""
    codec, config = index.stream.codec, index.stream.codec_configs[number]
    if codec not in _WITH_B_PICTURES or (codec == "h264" and config[:1] == b"\1" and config[1:2] == _H264_BASELINE):
        return False
    picture = picture_format(replace(index.stream, codec_configs=(config,)))
    stated = picture.reordered if picture else None
    return stated != 0 and not (codec == "hevc" and stated is None)


def _smallest(index: VideoIndex, packets: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    order = np.argpartition(index.packet_size[packets], min(count, len(packets)) - 1)
    return packets[order[:count]]


def _sign_of_reordering(index: VideoIndex, source: ByteSource, packets: Iterable[int]) -> Signs:
    """(packet, packet), of the first of these packets that holds a B picture; in HEVC others may be reordered, too."""
    codec, configs = index.stream.codec, index.stream.codec_configs
    for packet in dict.fromkeys(map(int, packets)):
        config = configs[index.packet_config[packet]]
        if codec == "hevc" or is_b_picture(codec, config, read_packet(index, source, packet, _SLICE_HEAD)):
            return [(packet, packet)]
    return []


def _signs(
    index: VideoIndex, source: ByteSource, dts: npt.NDArray[np.int64] | None, order: npt.NDArray[np.int64]
) -> Signs:
    """(first, last packet) where something is strange about the order of times."""
    pts = index.packet_pts
    shown = np.arange(len(pts))
    if index.stream.codec in _WITH_HIDDEN:
        # Of other codecs all packets have a picture, also those that an edit list leaves out.
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
    # A picture that waits for more others than a decoder holds back.
    late, deepest = shown.searchsorted(order) - np.arange(len(order)), deepest_reordering(index.stream)
    if late.max(initial=0) > deepest:
        last = int(order[late.argmax()])
        signs.append((max(last - deepest - 1, 0), last))
    keys = index.packet_key.nonzero()[0]
    # A keyframe before which a picture is decoded that is shown after it.
    overtaken = keys[np.maximum.accumulate(pts)[keys] > pts[keys]]
    signs += [(int(pts[:key].argmax()), key) for key in overtaken[:1].tolist()]
    later = np.minimum.accumulate(pts[::-1])[::-1]
    leading = keys[later[keys] < pts[keys]][:_MOST_KEYFRAMES]
    signs += [(key, key + int(pts[key:].argmin())) for key in leading.tolist() if _is_shown_first(index, source, key)]
    return signs


def _out_of_step(steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """bool[N - 1]: which steps from frame to frame do not fit to the others; none where these are not much alike.

    A wrong time mostly lies between two others, and so near one of them. Frames that are left out make longer steps,
    which are whole numbers of the usual one where that is exact.
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
    """bool[N - 1]: which steps from frame to frame in display order do not fit to the steps from packet to packet.

    Packets are decoded in the rhythm in which frames are shown, which may lag a few frames behind. A picture whose time
    is wrong leaves a hole where it should be. Where no lag makes most steps fit, nothing is known, unless most packets
    are decoded evenly.
    """
    odd = np.zeros(len(steps), np.bool_)
    # To a quarter of the usual step: containers round times, and cameras measure them.
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
    """The number of pictures that a decoder of a stream may have to hold back."""
    picture = picture_format(stream)
    if picture and picture.reordered is not None:
        return picture.reordered
    if picture and picture.buffering:
        return max(picture.buffering)
    return _DEEPEST.get(stream.codec, 0)


def _is_shown_first(index: VideoIndex, source: ByteSource, key: int) -> bool:
    """Whether nothing that is decoded after this keyframe may be shown before it: IDR pictures of H.264 and HEVC."""
    codec, config = index.stream.codec, index.stream.codec_configs[index.packet_config[key]]
    head = read_packet(index, source, key, _HEAD)
    if codec == "h264":
        return has_idr(config, head)
    units = iterate_nals(head, nal_length_size(codec, config)) if codec == "hevc" else ()
    return any(head[start] >> 1 & 63 == _HEVC_IDR_WITHOUT_LEADING for start, _ in units)


def _run_around(index: VideoIndex, source: ByteSource, first: int, last: int) -> tuple[int, int]:
    """(first packet, the one after the last) of what must be decoded to see in which order these packets come."""
    # Pictures that are decoded after a keyframe and shown before it need the one before that.
    start = _start_before(index, source, max(first - _HELD_BACK, 0))
    return start, min(last + 1 + _HELD_BACK, len(index.packet_size))


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of packets in their order, those that have packets in common as one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(runs):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _comes_in_another_order(index: VideoIndex, source: ByteSource, start: int, stop: int) -> bool:
    """Whether the pictures of a run of packets come out of a decoder in another order than that of their times."""
    order = _order_by_headers(index, source, start, stop) or _order_by_decoding(index, source, start, stop)
    times = index.packet_pts[order]
    return bool((np.diff(order)[np.diff(times) == 0] < 0).any() or (np.diff(times) < 0).any())


def _order_by_headers(index: VideoIndex, source: ByteSource, start: int, stop: int) -> list[int]:
    """The order that the packets' headers tell of; none where they do not."""
    configs, used = index.stream.codec_configs, index.packet_config
    record = configs[used[start]]
    places = Places(index.stream.codec, record)
    for number in range(start, stop):
        if places.known is None:
            return []
        places.add(read_packet(index, source, number, _HEAD), goes_on=configs[used[number]] == record)
    return [number for _, number in sorted(zip(places.known or (), range(start, stop), strict=False))]


def _order_by_decoding(index: VideoIndex, source: ByteSource, start: int, stop: int) -> list[int]:
    """The order in which pictures come out of a decoder; none where the packets are damaged."""
    # As if nothing were known of the order, a decoder holds back all that it can.
    unknown = replace(index, stream=replace(index.stream, reorder_depth=_HELD_BACK))
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
    """The last true keyframe at or before a packet; the first packet where there is none."""
    keys = index.packet_key[: packet + 1].nonzero()[0][::-1].tolist()
    return next((int(key) for key in keys if is_random_access_at(index, source, key)), 0)
