"""Emulates JPEG engines without a GPU: libavcodec decodes, and native code converts by the same plans."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import av
import numpy as np
import pytest
import torch

from videoloader.batching import image_rows
from videoloader.batching.batch_maker import BatchMaker
from videoloader.convert.native import _Kind, _Picture, native_code
from videoloader.convert.spec import OUTPUT_TYPES
from videoloader.errors import DecodeError
from videoloader.reading.jpeg_lists import DecodedList, EngineList, ViewMemory
from videoloader.runtime.shared_memory import new_block


def planes(content: bytes) -> np.ndarray:
    """The samples of a JPEG file, one plane after another without gaps."""
    with av.open(io.BytesIO(content), format="jpeg_pipe") as container:
        frame = next(container.decode(video=0))
    rows = [np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : plane.width] for plane in frame.planes]
    return np.concatenate([plane[: there.height].ravel() for plane, there in zip(rows, frame.planes, strict=True)])


class EmulatedEngines:
    """Has the methods of ``JpegListDecoder``, and memory on the CPU.

    Attributes:
        made: bytes of each file that was made.
        refused: sizes of the files that are refused.
    """

    def __init__(self) -> None:
        self.made: list[int] = []
        self.refused: set[int] = set()

    @contextmanager
    def memory(self) -> Iterator[torch.Tensor]:
        block = new_block(1 << 16)
        yield torch.from_numpy(block.memory)

    def make(self, files: EngineList, slots: ViewMemory, memory: torch.Tensor) -> DecodedList:
        contents, bytes_there = iter(files.contents), memory.numpy()
        views = len(files.plans) // max(len(files.files), 1)
        errors: list[DecodeError | None] = []
        for number, (place, file) in enumerate(zip(files.places.tolist(), files.files, strict=True)):
            size = int(file["size"])
            content = next(contents) if place < 0 else bytes_there[place : place + size].tobytes()
            if size in self.refused:
                errors.append(DecodeError("refused"))
                continue
            samples = planes(content)
            assert len(samples) == file["nbytes"]
            for view in range(number * views, (number + 1) * views):
                convert(samples, file, files.plans[view], int(slots.addresses[view]), slots.dtype)
            self.made.append(size)
            errors.append(None)
        return DecodedList(errors, _Done())  # type: ignore[arg-type]


class _Done:
    """An event after all work, which is always done."""

    def synchronize(self) -> None:
        pass


def convert(samples: np.ndarray, file: np.void, plan: np.void, slot: int, dtype: torch.dtype) -> None:
    sample_bytes, across, down, number = plan["kind"].tolist()
    kind = _Kind(sample_bytes, across, down, number, list(OUTPUT_TYPES).index(dtype))
    start = samples.ctypes.data
    pictures = (_Picture * 1)(_Picture(start, start + int(file["cb"]), start + int(file["cr"]), slot))
    numbers = np.array(plan["plan"])
    library: Any = native_code()
    assert library.videoloader_convert(ctypes.c_void_p(numbers.ctypes.data), ctypes.byref(kind), pictures, 1)


def emulate(monkeypatch: pytest.MonkeyPatch) -> EmulatedEngines:
    """Make loaders on the CPU use these engines like a GPU's."""
    if native_code() is None:
        pytest.skip("native code was not compiled")
    engines = EmulatedEngines()
    monkeypatch.setattr(image_rows, "list_decoder_of", lambda device: engines)
    monkeypatch.setattr(image_rows, "uses_jpeg_engines", lambda device, decode: True)
    monkeypatch.setattr(BatchMaker, "for_engines", property(lambda maker: maker.takes_unopened))
    return engines
