"""FIFOs, sockets and devices are refused at every door before they are waited for."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from videoloader import EveryWindow, Video, VideoDataset, VideoLoader
from videoloader.errors import SourceError, VideoLoaderError
from videoloader.indexing import FolderSource, IndexStore, build_index, build_store, open_source
from videoloader.indexing.sources import local
from videoloader.indexing.sources.regular_file import reading

REFUSED = "Is a FIFO, not a file"


@pytest.fixture
def fifo(tmp_path: Path) -> str:
    path = tmp_path / "a.mp4"
    os.mkfifo(path)
    return str(path)


DOORS: dict[str, Callable[[str], object]] = {
    "Video": lambda path: Video(path, device="cpu"),
    "build_index": build_index,
    "URL": lambda path: build_index(f"file://{path}"),
    "stream": lambda path: build_index(f"{path}::stream_index=0"),
    "archive": lambda path: open_source(f"{path}::clip.mp4"),
    "store": IndexStore,
    "new store": lambda path: build_store([], path),
    "table": lambda path: VideoDataset.from_csv(path),
    "JSON lines": lambda path: VideoDataset.from_csv(shutil.move(path, path + ".jsonl")),
    "Parquet": lambda path: VideoDataset.from_csv(shutil.move(path, path + ".parquet")),
    "folder of videos": lambda path: _load(VideoDataset.from_folder(os.path.dirname(path))),
    "rows": lambda path: _load(VideoDataset.from_paths([path])),
}


def _load(data: VideoDataset) -> VideoLoader:
    return VideoLoader(data, EveryWindow(2), batch_size=1, device="cpu", num_workers=1)


@pytest.mark.parametrize("door", DOORS)
def test_a_fifo_is_refused(fifo: str, door: str) -> None:
    with pytest.raises(VideoLoaderError, match=REFUSED):
        DOORS[door](fifo)


def test_a_row_of_a_table_that_is_a_fifo_is_refused(fifo: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(f"path\n{fifo}\n")
    with pytest.raises(SourceError, match=REFUSED):
        _load(VideoDataset.from_csv(tmp_path / "table.csv"))


def test_a_store_tells_of_a_fifo(fifo: str, tmp_path: Path) -> None:
    report = build_store([fifo], tmp_path / "index.db", workers=1)
    assert [(path, REFUSED in message) for path, message in report.unreadable] == [(fifo, True)]


@pytest.fixture(params=["/dev/zero", "/dev/tty", "socket"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param != "socket":
        yield request.param
        return
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        yield path


def test_devices_and_sockets_are_refused(no_file: str) -> None:
    if not os.path.exists(no_file):
        pytest.skip("there is no such device")
    with pytest.raises(SourceError, match=r"Is a (device|socket), not a file"):
        Video(no_file, device="cpu")


def test_a_file_that_becomes_a_fifo_while_it_is_read(
    sample: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copy(sample("h264_mp4"), tmp_path / "a.mp4")
    monkeypatch.setattr(local, "most_open_files", lambda: 1)
    video = Video(path, device="cpu")
    Video(sample("h264_mp4"), device="cpu")  # the first one's file is closed
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(SourceError, match="has changed since it was indexed or opened: 15799 bytes, now 0"):
        video[0]


def test_reads_of_a_file_wait_for_its_bytes(tmp_path: Path) -> None:
    """A file is opened so that a FIFO would not be waited for. From a tape, say, the bytes come later."""
    (tmp_path / "a").touch()
    with reading(tmp_path / "a") as file:
        assert os.get_blocking(file.fileno())


def test_an_image_that_becomes_a_fifo(tmp_path: Path, sample: Callable[[str], Path]) -> None:
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(b"\x89PNG\r\n")
    folder = FolderSource(tmp_path)
    os.unlink(tmp_path / "1.png")
    os.mkfifo(tmp_path / "1.png")
    with pytest.raises(SourceError, match=REFUSED):
        folder.read(6, 6)


def test_a_list_of_times_that_is_a_fifo(tmp_path: Path) -> None:
    (tmp_path / "0.pgm").write_bytes(b"P5 1 1 255\n0")
    os.mkfifo(tmp_path / "times.txt")
    with pytest.raises(SourceError, match=REFUSED):
        build_index(f"{tmp_path}::timestamps=times.txt")


def test_a_database_that_is_a_fifo(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    os.mkfifo(tmp_path / "data.mdb")
    with pytest.raises(SourceError, match=REFUSED):
        open_source(f"{tmp_path}::key")
