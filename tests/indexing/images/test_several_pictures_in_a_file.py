"""Image files in which several pictures lie one behind the other: only the first would be shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from image_files import encoded, picture

import videoloader as vl

KINDS = ["PNG", "WEBP", "BMP", "PPM"]


@pytest.mark.parametrize("kind", KINDS)
def test_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x").write_bytes(b"".join(encoded(picture(number), kind) for number in range(3)))
    with pytest.raises(vl.UnsupportedError, match="x: holds several pictures, one behind the other: split it"):
        vl.Video(tmp_path / "x", device="cpu")[0]


@pytest.mark.parametrize("behind", [b"", b"\0", b"P6", b"other data " * 100], ids=len)
@pytest.mark.parametrize("kind", KINDS)
def test_other_data_behind_a_picture_is_ignored(tmp_path: Path, kind: str, behind: bytes) -> None:
    for name, data in (("a", b""), ("b", behind)):
        (tmp_path / name).write_bytes(encoded(picture(3), kind) + data)
    one, other = (vl.Video(tmp_path / name, device="cpu")[0] for name in ("a", "b"))
    assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_folder_is_refused_too(tmp_path: Path, kind: str) -> None:
    for number in range(3):
        data = encoded(picture(number), kind)
        (tmp_path / f"{number}.{kind.lower()}").write_bytes(data * 2 if number == 1 else data)
    with pytest.raises(vl.VideoLoaderError, match="several pictures"):
        vl.Video(tmp_path, device="cpu")[:]
