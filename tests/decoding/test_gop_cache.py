"""The cache of decoded pictures; tests/gpu tests it with NVDEC."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from videoloader.decoding.gop_cache import GopCache
from videoloader.indexing import build_index


class _Stream:
    def record_event(self) -> None:
        return

    def wait_event(self, event: None) -> None:
        return


def test_pictures_decoded_by_other_configurations_are_not_found(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    index, cache, stream = build_index(sample("h264_mp4")), GopCache(1 << 20), _Stream()
    surface: Any = SimpleNamespace(owner=torch.zeros(16))
    cache.add(index, {0: surface, 3: surface}, stream)  # type: ignore[arg-type]
    assert cache.find(index, [0, 1, 3], stream) == {0: surface, 3: surface}  # type: ignore[arg-type]
    known = index.stream.codec_configs
    configurations = index.packet_config.copy()
    configurations[2:] = len(known)
    stream_facts = replace(index.stream, codec_configs=(*known, b"other sets"))
    corrected = replace(index, stream=stream_facts, packet_config=configurations)
    assert not cache.find(corrected, [0, 1, 3], stream)  # type: ignore[arg-type]
