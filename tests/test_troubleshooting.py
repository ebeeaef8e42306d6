"""The page that explains messages quotes them as they are."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from example_files import CLIP, write_example_files
from sample_videos import write_video
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.interop.torch import ClipDataset, stack_clips

PAGE = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text("utf-8")
QUOTED = re.findall(r"^\| `(.+?)` \|", "".join(PAGE.partition("## The first batch")[:1]), re.MULTILINE)
# They need a GPU, an HDR video, and a process group.
NOT_MADE = (
    "VideoWarning: a.mp4: decoded on",
    "VideoWarning: HDR",
    "VideoLoaderWarning: the loader was made for",
    "Input type",
)
WINDOW = vl.RandomWindow(4)


def loader(paths: list[str] | vl.VideoDataset, mode: Any = WINDOW, batch_size: int = 1, **more: Any) -> vl.VideoLoader:
    data = vl.VideoDataset.from_paths(paths) if isinstance(paths, list) else paths
    return vl.VideoLoader(data, mode, batch_size=batch_size, num_workers=0, **({"device": "cpu"} | more))


def with_columns(**columns: str) -> vl.VideoDataset:
    return vl.VideoDataset([vl.VideoEntry("small.mp4", 0, columns=columns)])


def changed() -> None:
    video = vl.Video("c.mp4", device="cpu")
    video[3]
    Path("c.mp4").write_bytes(Path("clip.mp4").read_bytes()[:20000])
    video[50]


def unpacked() -> None:
    for _frames, _labels in loader(["a.mp4"]):
        pass


def two_loops() -> None:
    twice = loader(["a.mp4"], vl.RandomWindow(4, clips=4))
    first = iter(twice)
    next(first)
    next(iter(twice))
    next(first)


def forked() -> None:
    begun = iter(loader(["a.mp4"], vl.RandomWindow(4, clips=4)))
    next(begun)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            next(begun)
        except Exception as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    raise vl.ConfigurationError(os.read(reader, 1000).decode())


def forked_beside_cuda() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
        vl.Video("a.mp4", device="cuda:0")


def other_state() -> None:
    loader(["a.mp4"], shuffle=True, seed=1).load_state_dict(loader(["a.mp4"], shuffle=True, seed=0).state_dict())


def second_epoch() -> None:
    clips = DataLoader(ClipDataset(vl.VideoDataset.from_paths(["a.mp4"]), WINDOW), collate_fn=stack_clips)
    assert len(list(clips)) == len(list(clips))


CALLS: list[Callable[[], object]] = [
    lambda: vl.Video("nope.mp4"),
    lambda: vl.Video("half.mp4"),
    lambda: vl.Video("text.mp4"),
    lambda: vl.Video("classes"),
    lambda: vl.Video("x.m3u8"),
    lambda: vl.VideoDataset.from_folder("others"),
    lambda: vl.VideoDataset.from_folder("ds"),
    lambda: vl.VideoDataset.from_csv("other_names.csv"),
    lambda: loader(["small.mp4"], index="all.db"),
    lambda: loader(["a.mp4"], index="no.db"),
    lambda: list(loader(["a.mp4", "half.mp4"], on_error="skip")),
    lambda: vl.Video("damaged.mp4", device="cpu")[:],
    lambda: next(iter(loader(["small.mp4", "smaller.mp4"], batch_size=2))),
    lambda: next(iter(loader(["small.mp4", "smaller.mp4"], vl.WholeVideo(), 2, transforms=[vl.Resize((32, 32))]))),
    lambda: next(iter(loader(["small.mp4"], transforms=[vl.CenterCrop(2000)]))),
    lambda: vl.Video("small.mp4", device="cpu")[30],
    lambda: vl.Video("small.mp4", device="cpu").at(100),
    lambda: vl.Video("small.mp4", device="cpu").read(vl.AtRate(8, 4, start=10)),
    lambda: loader(with_columns(cuts="10 500"), vl.Triplets(cuts="cuts")),
    lambda: loader(["small.mp4", "smaller.mp4"], vl.RandomWindow(25, pad="none")),
    lambda: list(loader(["small.mp4", "smaller.mp4"], vl.RandomWindow(100))),
    lambda: loader(vl.VideoDataset.from_csv("ends.csv")),
    lambda: loader(["a.mp4"], transforms=[vl.Normalize()], dtype="uint8"),
    lambda: vl.Normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)),
    lambda: next(
        iter(loader(["a.mp4", "b.mp4"], WINDOW, 2, transforms=[vl.Resize((16, 16)), torch.nn.Upsample(scale_factor=2)]))
    ),
    lambda: vl.VideoDataset.from_paths(["a.mp4"], [0]).filter(lambda entry: entry.label != "run"),
    lambda: vl.VideoDataset.from_paths(["a.mp4"], [0]).filter(lambda entry: entry.label != -1),
    lambda: with_columns(night="1", split="val").filter(lambda entry: entry.columns["nigth"] == "1"),
    lambda: next(iter(loader(["a.mp4"]))).to_source(torch.tensor([[0.1, 0.2, 0.5, 0.6]], dtype=torch.float64)),
    lambda: loader(["a.mp4"], drop_last=True),
    lambda: loader(["a.mp4"], device="cuda"),
    lambda: next(iter(DataLoader(vl.VideoDataset.from_paths(["a.mp4"])))),  # type: ignore[arg-type]
    lambda: next(iter(DataLoader(loader(["a.mp4"])))),  # type: ignore[arg-type]
    lambda: loader(["a.mp4"], batch_size=2, last_batch="drop"),
    lambda: loader(["a.mp4"], shard_id=0),
    *(changed, unpacked, two_loops, forked, forked_beside_cuda, other_state, second_epoch),
]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What all the calls say."""
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("messages"))
        patch.setattr(torch.cuda, "is_available", lambda: False)
        write_example_files(Path.cwd())
        content = Path("clip.mp4").read_bytes()
        middle = len(content) // 2
        write_video(Path("small.mp4"), replace(CLIP, size=(160, 128), frames=30))
        write_video(Path("smaller.mp4"), replace(CLIP, size=(96, 64), frames=20))
        for folder in ("classes/running", "others", "ds/train/a", "ds/val/a"):
            Path(folder).mkdir(parents=True)
            os.link("clip.mp4", f"{folder}/a.{'xyz' if folder == 'others' else 'mp4'}")
        Path("classes/walking").mkdir()
        Path("half.mp4").write_bytes(content[:3000])
        Path("text.mp4").write_text("no video " * 100)
        Path("c.mp4").write_bytes(content)
        Path("damaged.mp4").write_bytes(content[:middle] + bytes(20000) + content[middle + 20000 :])
        Path("x.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nseg.ts\n#EXT-X-ENDLIST\n")
        Path("other_names.csv").write_text("clip_name,kind\na.mp4,1\n")
        Path("ends.csv").write_text("path,start,end\nsmall.mp4,0,30\n")
        for call in CALLS:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    call()
                except vl.VideoLoaderError as error:
                    said.append(str(error))
            said += [f"{each.category.__name__}: {each.message}" for each in warned]
        yield said


@pytest.mark.parametrize("quoted", [each for each in QUOTED if not each.startswith(NOT_MADE)])
def test_the_library_says_what_the_page_quotes(quoted: str, messages: list[str]) -> None:
    # Names of files and numbers may be others.
    pattern = re.sub(r"[\w/]+\\\.(mp4|db)", r"\\S+\\.\1", re.escape(quoted))
    pattern = re.sub(r"\d+", r"\\d+", pattern).replace("…", ".*")
    assert any(re.search(pattern, each) for each in messages), messages


def test_many_messages_are_compared() -> None:
    assert len(QUOTED) > 35
    assert all(any(each.startswith(start) for each in QUOTED) for start in NOT_MADE)
