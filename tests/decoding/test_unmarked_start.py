"""H.264 that starts with a plain I picture, marked by nothing: which frames come out, the decoder guesses."""

from __future__ import annotations

import av
import numpy as np
import pytest
from av.video.frame import PictureType
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, build_index
from videoloader.indexing.bitstream.nal import iterate_nals
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

_SEI = 6  # nal_unit_type of ITU-T H.264, table 7-1
# In display order. The second I picture is the first of the file, and the first P and B after it do not come out.
_TYPES = "IPPPPPPPPPIBPBBBPBBBPBBBPBBBPBBBPBBBP"
_OPTIONS = "keyint=250:scenecut=0:open-gop=1:bframes=3:b-adapt=0:b-pyramid=normal:ref=1"


@pytest.fixture(scope="module")
def unmarked(tmp_path_factory):
    """A Matroska file of all packets from the second I picture on, without their recovery point messages."""
    folder = tmp_path_factory.mktemp("unmarked")
    with av.open(str(folder / "whole.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"x264-params": _OPTIONS})
        stream.width, stream.height, stream.pix_fmt = 160, 128, "yuv420p"
        for number, kind in enumerate(_TYPES):
            x, y = np.arange(160), np.arange(128)[:, None]
            waves = 128 + 90 * np.sin((x + 3 * number) / 9 + y / 7)
            frame = av.VideoFrame.from_ndarray(np.repeat(waves[..., None], 3, 2).astype(np.uint8), format="rgb24")
            frame = frame.reformat(format="yuv420p")
            frame.pts, frame.pict_type = number, PictureType[kind]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    _cut(folder)
    return folder / "cut.mkv"


def _cut(folder):
    with av.open(str(folder / "whole.mp4")) as source, av.open(str(folder / "cut.mkv"), "w") as cut:
        stream = source.streams.video[0]
        copy = cut.add_stream_from_template(stream)
        for number, packet in enumerate(source.demux(stream)):
            if number < _TYPES.index("I", 1) or not packet.size:
                continue
            data = bytes(packet)
            data = b"".join(data[start - 4 : stop] for start, stop in iterate_nals(data, 4) if data[start] & 31 != _SEI)
            plain = av.Packet(len(data))
            plain.update(data)
            plain.pts, plain.dts, plain.time_base = packet.pts, packet.dts, packet.time_base
            plain.stream = copy
            cut.mux(plain)


def test_frames_are_those_of_a_full_decode_whichever_are_wanted(unmarked):
    source, index, truth = FileSource(unmarked), build_index(unmarked), full_decode(unmarked).hashes
    assert not index.packet_key.any()
    assert index.method == "tables"
    assert 0 < len(index) == len(truth) < len(index.packet_size)
    decoder = CpuDecoder()
    for frames in (range(len(index)), *([frame] for frame in range(len(index)))):
        found: dict[int, bytes] = {}
        (run,) = plan_frames(index, frames).runs
        packets = read_packets(source, index, run)
        decoder.decode(index, packets, lambda packet, picture, to=found: to.update({packet: hash_of(picture)}))
        wanted = index.frame_packet[list(frames)].tolist()
        assert [found.get(packet) for packet in wanted] == [truth[frame] for frame in frames]
