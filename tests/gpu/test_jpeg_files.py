"""JPEG files decoded by the GPU's engines: libavcodec's pictures but for the last bit, whatever else is decoded."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import videoloader as vl
from videoloader.decoding.jpeg_engine import JpegDecoder, why_not_jpeg_engine

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
if reason := why_not_jpeg_engine(0):
    pytest.skip(reason, allow_module_level=True)

# Where all three codes of a pixel differ by 1, blue differs by 2.77, and rounding adds less than 1.
OF_CODES = 3
# Conversion by the CPU, which rounds twice, agrees with the GPU's within 2. By itself it is 0.24 off in the mean; 8 %
# of chroma's codes that differ make it 0.3. Not so in a part of a picture: a flat one may differ everywhere.
MOST, MEAN = 5, 0.3


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth waves, edges and a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / max(width, height)
    waves = [128 + 90 * np.sin(x * (7 + i) + y * (5 - i) + rng.random() * 6) for i in range(3)]
    pixels = np.stack(waves, 2) + rng.normal(0, 5, (height, width, 3))
    pixels[height // 4 : height // 2, width // 4 : width // 2] = rng.integers(0, 255, 3)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def jpeg(picture: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def with_adobe(data: bytes, transform: int) -> bytes:
    """With Adobe's segment: 0 says RGB, 1 Y'CbCr. (JFIF's, which says Y'CbCr, is taken out.)"""
    adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])
    length = int.from_bytes(data[4:6], "big")
    assert data[2:4] == b"\xff\xe0"
    return data[:2] + adobe + data[4 + length :]


def with_components(data: bytes, names: bytes) -> bytes:
    """Without JFIF's segment, and with components of these names."""
    changed = bytearray(data[:2] + data[4 + int.from_bytes(data[4:6], "big") :])
    frame, scan = changed.index(b"\xff\xc0"), changed.index(b"\xff\xda")
    changed[frame + 10 : frame + 19 : 3] = names
    changed[scan + 5 : scan + 11 : 2] = names
    return bytes(changed)


ON_ENGINES = {
    "444": jpeg(photo(200, 120), subsampling=0),
    "422": jpeg(photo(200, 120), subsampling=1),
    "420": jpeg(photo(200, 120), subsampling=2),
    "odd 444": jpeg(photo(201, 121), subsampling=0),
    "odd 422": jpeg(photo(201, 121), subsampling=1),
    "odd 420": jpeg(photo(201, 121), subsampling=2),
    "small": jpeg(photo(37, 21), subsampling=2),
    "restarts": jpeg(photo(200, 120), subsampling=2, restart_marker_rows=1),
    "low quality": jpeg(photo(333, 251), subsampling=2, quality=30),
    "optimized": jpeg(photo(333, 251), subsampling=2, optimize=True, quality=97),
    "large": jpeg(photo(4000, 3000), subsampling=2),
    "no JFIF": with_components(jpeg(photo(200, 120), subsampling=0), b"\1\2\3"),
}
ON_CPU = {
    "progressive": jpeg(photo(333, 251), subsampling=2, progressive=True),
    "gray": jpeg(photo(200, 120).convert("L")),
    "CMYK": jpeg(photo(200, 120).convert("CMYK")),
    "Adobe's YCbCr": with_adobe(jpeg(photo(200, 120), subsampling=2), 1),
    "Adobe's RGB": with_adobe(jpeg(photo(200, 120), subsampling=0), 0),
    "RGB by name": with_components(jpeg(photo(200, 120), subsampling=0), b"RGB"),
}
# Whether engines take them is theirs to say: then the CPU does it, with a warning.
TINY = {"nine by seven": jpeg(photo(9, 7), subsampling=2), "one pixel": jpeg(photo(1, 1), subsampling=2)}


@pytest.fixture
def on_engines(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each file that engines have decoded."""
    decoded: list[int] = []
    decode = JpegDecoder.decode

    def counted(self: JpegDecoder, addresses: Any, files: Any, owner: object, stream: torch.cuda.Stream) -> Any:
        made = decode(self, addresses, files, owner, stream)
        decoded.extend(files["size"].tolist())
        return made

    why_not_jpeg_engine(0)  # which decodes a file, once
    monkeypatch.setattr(JpegDecoder, "decode", counted)
    return decoded


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / f"{name}.jpg"
    path.write_bytes(data)
    return path


def assert_alike(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.shape == other.shape
    difference = (one.cpu().float() - other.cpu().float()).abs()
    assert difference.max() <= MOST
    assert difference.mean() <= MEAN


@pytest.mark.parametrize("name", ON_ENGINES)
def test_pictures_are_those_of_the_cpu(tmp_path: Path, on_engines: list[int], name: str) -> None:
    path = write(tmp_path, name, ON_ENGINES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_gpu = vl.Video(path, device="cuda")[:]
    assert on_engines == [len(ON_ENGINES[name])]
    assert_alike(on_gpu, vl.Video(path, device="cpu")[:])


@pytest.mark.parametrize("name", TINY)
def test_tiny_pictures_are_right_whoever_decodes_them(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, TINY[name])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "mjpeg images: decoded on the CPU", RuntimeWarning)
        on_gpu = vl.Video(path, device="cuda")[:]
    assert_alike(on_gpu, vl.Video(path, device="cpu")[:])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_once(tmp_path: Path, on_engines: list[int], orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = write(tmp_path, "turned", jpeg(photo(200, 120), subsampling=2, exif=exif))
    on_gpu = vl.Video(path, device="cuda")[:]
    assert len(on_engines) == 1
    assert_alike(on_gpu, vl.Video(path, device="cpu")[:])


@pytest.mark.parametrize("name", ON_CPU)
def test_other_kinds_are_left_to_the_cpu(tmp_path: Path, on_engines: list[int], name: str) -> None:
    path = write(tmp_path, name, ON_CPU[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_gpu = vl.Video(path, device="cuda")[:]
    assert not on_engines
    assert (on_gpu.cpu().int() - vl.Video(path, device="cpu")[:].int()).abs().max() <= 2


def test_decode_cpu_means_the_cpu(tmp_path: Path, on_engines: list[int]) -> None:
    path = write(tmp_path, "420", ON_ENGINES["420"])
    vl.Video(path, device="cuda", decode="cpu")[0]
    assert not on_engines


def test_what_engines_refuse_is_done_by_the_cpu_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: JpegDecoder, addresses: Any, files: Any, owner: object, stream: torch.cuda.Stream) -> Any:
        nothing = torch.empty(0, dtype=torch.uint8, device="cuda")
        return nothing, np.zeros(len(files), np.int64), [vl.DecodeError("no") for _ in files]

    why_not_jpeg_engine(0)
    monkeypatch.setattr(JpegDecoder, "decode", refuse)
    path = write(tmp_path, "420", ON_ENGINES["420"])
    with pytest.warns(RuntimeWarning, match="mjpeg images: decoded on the CPU: no"):
        on_gpu = vl.Video(path, device="cuda")[:]
    assert (on_gpu.cpu().int() - vl.Video(path, device="cpu")[:].int()).abs().max() <= 2


def test_a_file_beyond_the_engines_size_leaves_the_others_of_its_list_to_them(tmp_path: Path) -> None:
    for number in range(12):
        write(
            tmp_path, f"{number:02}", jpeg(photo(20000, 40) if number == 5 else photo(160, 90, number), subsampling=2)
        )
    loader = vl.VideoLoader(
        vl.VideoDataset.from_paths(sorted(tmp_path.iterdir())),
        vl.FrameList([0]),
        batch_size=12,
        device="cuda",
        transforms=[vl.Resize((90, 160))],
    )
    with pytest.warns(RuntimeWarning, match="decoded on the CPU: nvJPEG refuses the file: JPEG not supported"):
        (batch,) = loader
    for number, frames in enumerate(batch.frames):
        path = tmp_path / f"{number:02}.jpg"
        alone = vl.Video(path, device="cpu").read([0], transforms=[vl.Resize((90, 160))])
        assert_alike(frames, alone.frames)


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "cut", ON_ENGINES["420"][:-500])
    with pytest.raises(vl.DecodeError, match="cut off"):
        vl.Video(path, device="cuda")[0]


def test_frames_of_a_folder_by_any_numbers(tmp_path: Path, on_engines: list[int]) -> None:
    for number in range(40):
        options = {"progressive": number % 5 == 0, "subsampling": number % 3}
        write(tmp_path, str(number), jpeg(photo(160, 90, number), **options))
    numbers = [*range(0, 40, 3), 7, 7, 8]
    on_gpu = vl.Video(tmp_path, device="cuda").read(numbers).frames
    assert len(on_engines) == len({number for number in numbers if number % 5})
    assert_alike(on_gpu, vl.Video(tmp_path, device="cpu").read(numbers).frames)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 images of many sizes and kinds in two classes."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for number in range(300):
        (folder / "ab"[number % 2]).mkdir(exist_ok=True)
        picture = photo(*(int(side) for side in rng.integers(60, 500, 2)), number)
        options = {"progressive": number % 7 == 0, "subsampling": number % 3, "quality": 60 + number % 40}
        write(
            folder / "ab"[number % 2], str(number), jpeg(picture.convert("L" if number % 11 == 0 else "RGB"), **options)
        )
    return folder


def epoch(images: Path, device: str, **options: Any) -> dict[int, torch.Tensor]:
    loader = vl.VideoLoader(
        vl.VideoDataset.from_folder(images, extensions=vl.IMAGE_EXTENSIONS),
        vl.UniformFrames(1),
        batch_size=32,
        device=device,
        transforms=[vl.RandomResizedCrop(96), vl.RandomHorizontalFlip()],
        shuffle=True,
        **options,
    )
    return {
        clip: frames.cpu() for batch in loader for clip, frames in zip(batch.clips.tolist(), batch.frames, strict=True)
    }


def test_a_loader_gives_the_same_whoever_decodes_with_whom(
    images: Path, on_engines: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = epoch(images, "cuda", num_workers=1)
    monkeypatch.setattr("videoloader.reading.workers._JPEG_PIXELS", 1)  # as if all were large: those get all threads
    together = epoch(images, "cuda", num_workers=16)
    engines = sum(number % 7 != 0 and number % 11 != 0 for number in range(300))
    assert len(on_engines) == 2 * engines
    assert alone.keys() == together.keys()
    assert all(torch.equal(frames, alone[clip]) for clip, frames in together.items())


def test_a_loader_gives_what_libavcodec_and_the_same_conversion_give(images: Path) -> None:
    by_cpu = epoch(images, "cuda", decode="cpu")
    for clip, frames in epoch(images, "cuda").items():
        assert (frames.int() - by_cpu[clip].int()).abs().max() <= OF_CODES


def test_a_loader_gives_what_it_gives_on_the_cpu(images: Path) -> None:
    on_cpu, on_gpu = epoch(images, "cpu"), epoch(images, "cuda")
    assert_alike(torch.stack([on_gpu[clip] for clip in on_cpu]), torch.stack(list(on_cpu.values())))
