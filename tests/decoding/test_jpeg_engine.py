"""Which JPEG files the GPU's engines get: those whose samples libavcodec takes for full-range Y'CbCr, no other."""

from __future__ import annotations

import ctypes
import io
import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from videoloader.decoding import jpeg_engine
from videoloader.decoding.jpeg_engine import engine_layout
from videoloader.indexing import build_index
from videoloader.indexing.sources.local import MemorySource


def jpeg(mode: str = "RGB", subsampling: int = 0, **options: Any) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (41, 57, 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", subsampling=subsampling, **options)
    return file.getvalue()


def with_segment(data: bytes, kind: int, content: bytes) -> bytes:
    return data[:2] + bytes([0xFF, kind]) + (len(content) + 2).to_bytes(2, "big") + content + data[2:]


def changed_frame(data: bytes, first: int, values: bytes) -> bytes:
    """With other bytes for the three components, in the frame header and, for names, in that of the scan."""
    changed = bytearray(data)
    frame, scan = changed.index(b"\xff\xc0"), changed.index(b"\xff\xda")
    changed[frame + 10 + first : frame + 19 + first : 3] = values
    if not first:
        changed[scan + 5 : scan + 11 : 2] = values
    return bytes(changed)


def adobe(transform: int) -> bytes:
    return b"Adobe\0\x64\0\0\0\0" + bytes([transform])


FOR_ENGINES = {
    "4:4:4": (jpeg(), "yuvj444p"),
    "4:2:2": (jpeg(subsampling=1), "yuvj422p"),
    "4:2:0": (jpeg(subsampling=2), "yuvj420p"),
    "restarts": (jpeg(subsampling=2, restart_marker_rows=1), "yuvj420p"),
    "Exif": (with_segment(jpeg(), 0xE1, b"Exif\0\0" + bytes(60000)), "yuvj444p"),
    "a comment": (with_segment(jpeg(), 0xFE, b"holidays"), "yuvj444p"),
}
FOR_CPU = {
    "progressive": jpeg(progressive=True),
    "gray": jpeg("L"),
    "CMYK": jpeg("CMYK"),
    "Adobe's YCbCr": with_segment(jpeg(), 0xEE, adobe(1)),
    "Adobe's RGB": with_segment(jpeg(), 0xEE, adobe(0)),
    "RGB by name": changed_frame(jpeg(), 0, b"RGB"),
    "studio range": with_segment(jpeg(), 0xFE, b"CS=ITU601"),
    "factors that are not the least": changed_frame(jpeg(), 1, b"\x22\x22\x22"),
    "no frame header": jpeg()[: jpeg().index(b"\xff\xc0")],
}
STREAM = build_index(MemorySource(jpeg())).stream


@pytest.mark.parametrize("name", FOR_ENGINES)
def test_samples_lie_in_planes_with_the_chroma_that_libavcodec_finds(name: str) -> None:
    data, pixels = FOR_ENGINES[name]
    decoder = av.CodecContext.create("mjpeg", "r")
    (frame,) = [*decoder.decode(av.Packet(data)), *decoder.decode(None)]
    assert frame.format.name == pixels
    layout = engine_layout(data, STREAM)
    assert layout is not None
    assert (layout.model, layout.bit_depth, layout.width, layout.height) == ("ycbcr", 8, 57, 41)
    chroma = frame.planes[1]
    assert layout.chroma_size == (chroma.height, chroma.width)
    luma, samples = 57 * 41, chroma.width * chroma.height
    assert (layout.pitch, layout.chroma_pitch, layout.cb, layout.cr) == (57, chroma.width, luma, luma + samples)
    assert layout.nbytes == luma + 2 * samples


@pytest.mark.parametrize("name", FOR_CPU)
def test_other_kinds_are_left_to_the_cpu(name: str) -> None:
    assert engine_layout(FOR_CPU[name], STREAM) is None


def test_a_file_of_another_size_than_its_folder_is_left_to_the_cpu() -> None:
    assert engine_layout(jpeg(), replace(STREAM, width=58)) is None


def test_it_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg_engine, "_library", lambda: None)
    assert "nvJPEG is not installed" in jpeg_engine.why_not_jpeg_engine.__wrapped__(0)


def test_a_forked_process_leaves_the_decoder_to_the_process_that_made_it() -> None:
    called: list[str] = []
    library: Any = SimpleNamespace(
        nvjpegJpegStateDestroy=lambda state: called.append("state"),
        nvjpegDestroy=lambda handle: called.append("handle"),
    )
    nothing = ctypes.c_void_p()
    jpeg_engine._destroy(library, nothing, nothing, os.getpid() + 1)
    assert called == []
    jpeg_engine._destroy(library, nothing, nothing, os.getpid())
    assert called == ["state", "handle"]
