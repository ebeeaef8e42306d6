"""Films whose pictures and sound start at different times."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np


def write_film(container: str, options: dict[str, str], sound: str, order: str, starts: tuple[int, int]) -> bytes:
    """A film of slightly over a second whose pictures and sound start at these times, in milliseconds.

    Args:
        container, options: the muxer and its options.
        sound: encoder of the sound.
        order: order of the streams: ``"va"``, ``"av"``, or ``"v"`` for no sound.
        starts: start times of pictures and sound. There are 25 pictures a second; picture ``n`` is grey, 8 · n.
    """
    file = io.BytesIO()
    with av.open(file, "w", format=container, container_options=options) as output:
        streams = {}
        for kind in order:
            if kind == "v":
                streams[kind] = output.add_stream("libx264", rate=25, options={"bf": "2", "g": "12", "threads": "1"})
                streams[kind].width, streams[kind].height, streams[kind].pix_fmt = 64, 64, "yuv420p"
                streams[kind].codec_context.time_base = Fraction(1, 1000)
            else:
                streams[kind] = output.add_stream(sound, rate=48000, layout="stereo")
        packets = []
        for number in range(30):
            picture = av.VideoFrame.from_ndarray(np.full((96, 64), 8 * number, np.uint8), format="yuv420p")
            picture.pts, picture.time_base = starts[0] + 40 * number, Fraction(1, 1000)
            packets += streams["v"].encode(picture)
        packets += streams["v"].encode(None)
        if "a" in streams:
            length = streams["a"].codec_context.frame_size or 1024
            for number in range(50):
                silence = np.zeros((1, 2 * length), np.int16)
                samples = av.AudioFrame.from_ndarray(silence, format="s16", layout="stereo")
                samples.sample_rate, samples.pts = 48000, 48 * starts[1] + number * length
                packets += streams["a"].encode(samples)
            packets += streams["a"].encode(None)
        for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
            output.mux(packet)
    return file.getvalue()
