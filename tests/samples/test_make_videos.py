"""The painted frame numbers survive every codec, since the demo proves exactness by them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import av
import numpy as np
import pytest

SAMPLE = Path(__file__).parents[2] / "samples" / "make_videos.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_videos", SAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_videos"] = module  # dataclasses look their module up while it runs
    spec.loader.exec_module(module)
    return module


make_videos = _load()


def _decode(path: Path) -> tuple[list[np.ndarray], list[float]]:
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    return [frame.to_ndarray(format="rgb24") for frame in frames], [frame.time for frame in frames]


@pytest.mark.parametrize("size", make_videos.SIZES)
@pytest.mark.parametrize(("codec", "variable_rate"), make_videos.VARIANTS)
def test_number_of_every_frame_reads_back(tmp_path, codec, variable_rate, size):
    path = tmp_path / f"video.{make_videos.CODECS[codec].container}"
    make_videos.write_video(path, "growing", codec, 70, size, variable_rate=variable_rate, seed=3)
    frames, times = _decode(path)
    assert [make_videos.read_frame_number(frame) for frame in frames] == list(range(70))
    steps = np.diff(times)
    assert (steps > 0).all()
    assert (steps.max() - steps.min() > 0.01) == variable_rate


def test_h264_has_b_frames_and_starts_at_zero(tmp_path):
    path = tmp_path / "video.mp4"
    make_videos.write_video(path, "up", "h264", 40, (160, 120))
    with av.open(str(path)) as container:
        packets = [packet.pts for packet in container.demux(video=0) if packet.pts is not None]
    assert packets != sorted(packets)
    assert min(packets) == 0


@pytest.mark.parametrize("number", [0, 1, 682, 1365, 4095])
@pytest.mark.parametrize("size", [(64, 48), (160, 120), (333, 251), (1920, 1080)])
def test_paint_and_read_at_any_size_type_and_range(number, size):
    image = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), np.uint8)
    make_videos.paint_frame_number(image, number)
    assert make_videos.read_frame_number(image) == number
    assert make_videos.read_frame_number(image.astype(np.float16) / 255 - 0.5) == number


def test_mirrored_and_unpainted_pictures_are_refused():
    rng = np.random.default_rng(0)
    image = np.zeros((120, 160, 3), np.uint8)
    make_videos.paint_frame_number(image, 77)
    pictures = [image[:, ::-1], image[:-20], np.zeros_like(image), np.full_like(image, 255)]
    pictures += list(rng.integers(0, 256, (200, 120, 160, 3), np.uint8))
    for picture in pictures:
        with pytest.raises(ValueError, match="no painted frame number"):
            make_videos.read_frame_number(picture)


def test_too_large_number_is_refused():
    with pytest.raises(ValueError, match="4096"):
        make_videos.paint_frame_number(np.zeros((48, 64, 3), np.uint8), 4096)


@pytest.mark.parametrize("motion", make_videos.MOTIONS)
def test_motion_goes_where_its_name_says(motion):
    seconds = np.array([0.0, 0.05])
    moves = []
    for seed in range(12):
        before, after = (make_videos._place(motion, 0.6 * t, np.random.default_rng(seed).random(2)) for t in seconds)
        moves.append(np.subtract(after, before))
    expected = {"left_to_right": (0, 1), "right_to_left": (0, -1), "down": (1, 1), "up": (1, -1)}
    if motion in expected:
        axis, sign = expected[motion]
        assert all(np.sign(move[axis]) == sign and not move[1 - axis] for move in moves)
    elif motion == "growing":
        assert np.median([move[2] for move in moves]) > 0


def test_dataset_is_reproducible_and_varied(tmp_path):
    paths = make_videos.write_dataset(tmp_path / "a", 4, num_frames=(20, 30), seed=5)
    again = make_videos.write_dataset(tmp_path / "b", 4, num_frames=(20, 30), seed=5)
    assert len(paths) == 4 * len(make_videos.MOTIONS)
    assert {path.parent.name for path in paths} == set(make_videos.MOTIONS)
    assert {path.suffix for path in paths} == {".mp4", ".webm"}
    assert [path.relative_to(tmp_path / "a") for path in paths] == [path.relative_to(tmp_path / "b") for path in again]
    first, second = (_decode(path)[0] for path in (paths[0], again[0]))
    assert np.array_equal(first, second)
    assert len({_decode(path)[0][0].tobytes() for path in paths}) == len(paths)
