"""What a DecodingLoader refuses, and what it does with videos and data sets that fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from child_environment import child_environment
from forked_programs import run_program
from sample_videos import RECIPES, Recipe, write_video
from torch.utils.data import DataLoader
from torch_datasets import Failing, as_they_are, make

import videoloader as vl
from videoloader.interop.torch import ClipRequest

Sample = Callable[[str], Path]
ROWS = 11


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (("a.mp4", []), {}),
        ((5, [0]), {}),
        ((b"", [0]), {}),
        (("a.mp4", [0.5]), {}),
        (("", [0]), {}),
        (("a.mp4", [0]), {"clip": -1}),
        (("a.mp4", [0]), {"seed": "x"}),
        (("a.mp4", [0]), {"transforms": [vl.Normalize()]}),
    ],
)
def test_bad_requests_are_refused_where_they_are_made(arguments: Any, settings: Any) -> None:
    with pytest.raises(vl.ConfigurationError):
        ClipRequest(*arguments, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "BTCHW"},
        {"dtype": "int8"},
        {"on_error": "replace"},
        {"decode": "gpu"},
        {"collate": "zip"},
        {"prefetch": 0},
        {"gop_cache": -1},
        {"seed": -1},
        {"num_workers": -1},
        {"device": "tpu"},
        {"transforms": [vl.Normalize()], "dtype": "uint8"},
        {"replace_with": 3},
    ],
)
def test_bad_settings_are_refused_when_the_loader_is_made(settings: Any) -> None:
    with pytest.raises(vl.ConfigurationError):
        make([], **settings)


def test_what_gives_no_requests_is_refused(paths: list[str]) -> None:
    for given in (vl.VideoDataset.from_paths(paths), 3):
        with pytest.raises(vl.ConfigurationError, match="torch_loader must be a torch DataLoader of samples"):
            make(given)
    with pytest.raises(vl.ConfigurationError, match="no batch of the epoch held a ClipRequest: let the data set give"):
        list(make([paths]))
    assert list(make([])) == []
    assert len(list(make([paths, [ClipRequest(paths[0], [0])]]))) == 2


def test_sizes_that_differ_are_an_error_that_says_what_to_do(paths: list[str], tmp_path: Path) -> None:
    recipe = Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64), frames=5)
    small = write_video(tmp_path / "small.mp4", recipe)
    batch = [[ClipRequest(paths[0], [0]), ClipRequest(small, [0])]]
    with pytest.raises(vl.ConfigurationError, match="Resize"):
        list(make(batch))
    [frames] = make(batch, transforms=[vl.Letterbox(64)])
    assert frames.shape == (2, 1, 3, 64, 64)


def test_an_error_of_the_data_set_comes_after_the_batches_before_it(paths: list[str]) -> None:
    data = Failing(paths, ROWS, seeded=True)
    for workers in (0, 2):
        loader = make(DataLoader(data, batch_size=2, num_workers=workers), prefetch=9)
        for _ in range(2):
            rows = []
            with pytest.raises(KeyError, match="the last row"):  # noqa: PT012
                for batch in loader:
                    rows += batch["row"].tolist()
            assert rows == list(range(10))


def run(script: str, paths: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program of its own, which must come to an end."""
    environment = child_environment(Path(__file__).absolute().parent)
    return run_program(script, *paths, cwd=folder, env=environment)


def test_the_end_of_a_worker_is_an_error(paths: list[str], tmp_path: Path) -> None:
    """In a program of its own: PyTorch raises it from a signal handler, wherever the main thread is."""
    script = """
import sys
from torch.utils.data import DataLoader
from torch_datasets import Dying
from videoloader.interop.torch import DecodingLoader
for batch in DecodingLoader(DataLoader(Dying(sys.argv[1:], 11, seeded=True), num_workers=1), device="cpu"):
    pass
"""
    done = run(script, paths, tmp_path)
    assert done.returncode == 1
    causes = ("killed by signal", "ConnectionResetError", "EOFError")  # the signal, or the end of the worker's pipe
    assert any(cause in done.stderr for cause in causes), done.stderr


def test_a_program_ends_while_batches_are_in_the_making(paths: list[str], tmp_path: Path) -> None:
    script = """
import sys
import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader
batches = [[ClipRequest(path, vl.RandomWindow(16)) for path in sys.argv[1:]] for _ in range(100)]
running = iter(DecodingLoader(batches, device="cpu", num_workers=2, prefetch=20))
print(len(next(running)))
"""
    done = run(script, paths, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.fixture
def damaged(paths: list[str], tmp_path: Path) -> str:
    """A video whose later frames cannot be decoded."""
    content = bytearray(Path(paths[0]).read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    path = tmp_path / "noise.mp4"
    path.write_bytes(content)
    return str(path)


def test_what_cannot_be_decoded_is_named_or_skipped(paths: list[str], damaged: str, tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    batches = [
        [ClipRequest(paths[0], [0]), ClipRequest(other, [frame])]
        for other, frame in [
            (paths[1], 0),
            (damaged, 40),
            (str(text), 0),
            (paths[1], 60),
            (str(tmp_path / "no.mp4"), 0),
        ]
    ]
    for batch, name in zip(batches[1:], ("noise", "text", Path(paths[1]).stem, "no"), strict=True):
        with pytest.raises(vl.VideoLoaderError, match=name):
            list(make([batches[0], batch]))
    loader = make([*batches, batches[0]], on_error="skip")
    assert len(list(loader)) == 2
    assert [Path(path).stem for path, _ in loader.unreadable] == ["noise", "text", Path(paths[1]).stem, "no"]
    assert loader.stats().clips == 4


@pytest.mark.filterwarnings("ignore:clips of 1 file cannot be made")
def test_an_epoch_of_which_nothing_can_be_made_is_an_error(paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    unreadable = [[ClipRequest(str(tmp_path / "text.mp4"), [0])]] * 3
    loader = make(unreadable, on_error="skip")
    for epoch in range(2):
        assert loader.state_dict()["epoch"] == epoch
        with pytest.raises(vl.SourceError, match=r"text\.mp4: of the epoch's 3 clips none can be made; the first: "):
            list(loader)
    # What is left of an epoch may be the part that cannot be made.
    batches = [[ClipRequest(paths[0], [0])], *unreadable]
    begun, resumed = make(batches, on_error="skip"), make(batches, on_error="skip")
    next(iter(begun))
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == []
    assert len(list(resumed)) == 1


@pytest.mark.parametrize(
    ("error", "settings"),
    [
        (vl.NoMemoryError("told"), {"on_error": "skip"}),
        (vl.CorruptFramesError("told", "x.mp4"), {"on_corrupt": "keep"}),
    ],
)
def test_an_error_of_a_transform_comes_out(paths: list[str], error: Exception, settings: dict[str, Any]) -> None:
    """No video is at fault, so none is skipped; where damaged frames are kept, no error of damage is a video's."""

    class Failing(torch.nn.Module):
        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            raise error

    data: Any = [ClipRequest(path, vl.UniformFrames(2)) for path in paths]
    batches = DataLoader(data, batch_size=1, collate_fn=as_they_are)
    with pytest.raises(type(error), match="told"):
        list(make(batches, transforms=[vl.ToFloat(), Failing()], **settings))
