"""Archives that tests of data sets share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_writing import tar_bytes

Sample = Callable[[str], Path]


@pytest.fixture
def shards(sample: Sample, tmp_path: Path) -> list[Path]:
    """Two shards of two videos each: a number as label, a caption, JSON, and a picture."""
    video = sample("h264_mp4").read_bytes()
    paths = []
    for shard in range(2):
        files: dict[str, bytes] = {}
        for key in (f"v/{shard}0", f"v/{shard}1.left"):
            stem = key.partition(".")[0]
            files |= {f"{key}.mp4": video, f"{stem}.cls": b"%d\n" % shard, f"{stem}.txt": "Höhe".encode()}
            files |= {f"{stem}.json": json.dumps({"fps": 25}).encode(), f"{stem}.jpg": b"\xff\xd8"}
            files[f"{stem}.npy"] = b"x" * (65 << 10)
        files["other.json"] = b"not JSON, and of no video"
        paths.append(tmp_path / f"{shard}.tar")
        paths[-1].write_bytes(tar_bytes(files))
    return paths
