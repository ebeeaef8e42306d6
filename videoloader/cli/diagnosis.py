"""Checks the parts of this machine that decode videos."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import os
import platform
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import av
import numpy as np

from videoloader import __version__
from videoloader.errors import counted

State = Literal["ok", "note", "wrong"]

_Package: TypeAlias = tuple[str, tuple[str, ...], str, str]
# Import name, names of distributions that provide it, its purpose, and the extra that installs it.
_PACKAGES: tuple[_Package, ...] = (
    ("fsspec", ("fsspec",), "URLs", "remote"),
    ("pyarrow", ("pyarrow",), "Parquet, saved data sets", "parquet"),
    ("lmdb", ("lmdb",), "LMDB", "lmdb"),
    ("ray", ("ray",), "Ray", "ray"),
    ("lightning", ("lightning",), "Lightning", "lightning"),
    ("PIL", ("pillow",), "pictures, videoloader preview", "cli"),
)
_GPU_PACKAGES: tuple[_Package, ...] = (
    ("PyNvVideoCodec", ("pynvvideocodec",), "NVDEC", "cuda"),
    ("cupy", ("cupy-cuda12x", "cupy-cuda13x", "cupy"), "conversion on the GPU", "cuda"),
)
_FORMATS = (("420", 8), ("420", 10), ("444", 8))
_FRAMES, _SIZE = 30, (320, 240)
# The most that the mean of a gray picture may differ from the encoded value, and two engines' pixels from each other.
_GRAY_TOLERANCE, _ENGINE_TOLERANCE = 4, 2


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        group, name: names of the group and of the item in it.
        state: ``"ok"``; ``"note"``: it is missing, but optional; ``"wrong"``: it is present but does not work.
        told: text about the item.
        advice: remedy; empty if nothing needs to be done.
    """

    group: str
    name: str
    state: State
    told: str
    advice: str = ""


def findings() -> Iterator[Finding]:
    """Run all checks, one by one."""
    yield from _system()
    yield from _packages(_PACKAGES, "package")
    yield from _gpus()
    yield _tested("cpu", lambda: _decode_on_cpu(_film()))


def nvdec_capabilities(gpu: int) -> list[dict[str, Any]]:
    """The capabilities of a GPU's NVDEC: sizes and engines for each supported codec, chroma and bit depth."""
    from videoloader.decoding.capabilities import capabilities
    from videoloader.decoding.nvdec_codecs import NVDEC_CODECS

    found = []
    for codec in NVDEC_CODECS:
        for chroma, depth in _FORMATS:
            caps = capabilities(gpu, codec, chroma, depth)
            if caps.supported:
                found.append(
                    {
                        "codec": codec,
                        "chroma": chroma,
                        "bit_depth": depth,
                        "smallest": [caps.min_width, caps.min_height],
                        "largest": [caps.max_width, caps.max_height],
                        "engines": caps.num_engines,
                    }
                )
    return found


def _system() -> Iterator[Finding]:
    from videoloader.convert.native import native_code
    from videoloader.runtime.cores import available_cores

    yield Finding("system", "Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Finding("system", "cores", "ok", f"{available_cores()} of {os.cpu_count()}")
    yield Finding("videoloader", "version", "ok", __version__)
    if os.environ.get("VIDEOLOADER_NATIVE") == "0":
        yield Finding("videoloader", "native code", "note", "turned off", "unset VIDEOLOADER_NATIVE")
    elif native_code():
        yield Finding("videoloader", "native code", "ok", "compiled")
    else:
        advice = "install a C++17 compiler, then videoloader again; without it the CPU converts pixels more slowly"
        yield Finding("videoloader", "native code", "note", "not there", advice)
    ffmpeg = ", ".join(
        f"{name} {'.'.join(map(str, av.library_versions[name]))}" for name in ("libavcodec", "libavformat")
    )
    yield Finding("package", "av", "ok", f"{av.__version__} ({ffmpeg})")
    for name in ("numpy", "torch"):
        yield Finding("package", name, "ok", importlib.metadata.version(name))


def _packages(wanted: tuple[_Package, ...], group: str, cuda: str = "") -> Iterator[Finding]:
    for name, distributions, purpose, extra in wanted:
        if version := _version(name, distributions):
            yield Finding(group, name, "ok", f"{version} ({purpose})")
        else:
            state: State = "wrong" if group == "GPU" else "note"
            advice = f"pip install 'videoloader[{extra}{cuda}]'"
            yield Finding(group, name, state, f"not installed ({purpose})", advice)


def _version(name: str, distributions: tuple[str, ...]) -> str:
    if importlib.util.find_spec(name) is None:
        return ""
    for distribution in distributions:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def _gpus() -> Iterator[Finding]:
    import torch

    driver = Path("/proc/driver/nvidia/version")
    if not torch.cuda.is_available():
        if driver.exists() and torch.version.cuda is None:
            told, advice = "there is a driver, but PyTorch is built for the CPU", "install PyTorch with CUDA"
            yield Finding("GPU", "CUDA", "wrong", told, advice)
        elif driver.exists():
            told = f"there is a driver, but PyTorch for CUDA {torch.version.cuda} finds no device"
            advice = "run nvidia-smi; look whether the driver is new enough, and CUDA_VISIBLE_DEVICES"
            yield Finding("GPU", "CUDA", "wrong", told, advice)
        else:
            yield Finding("GPU", "CUDA", "note", "no NVIDIA driver: videos are decoded on the CPU")
        return
    if driver.exists():
        yield Finding("GPU", "driver", "ok", driver.read_text().partition("\n")[0].partition(": ")[2].strip())
    yield Finding("GPU", "CUDA", "ok", f"{torch.version.cuda}, as PyTorch was built for")
    packages = list(_packages(_GPU_PACKAGES, "GPU", "13" if str(torch.version.cuda).startswith("13") else "12"))
    yield from packages
    usable = not any(each.state == "wrong" for each in packages)
    for gpu in range(torch.cuda.device_count()):
        yield Finding("GPU", f"cuda:{gpu}", "ok", torch.cuda.get_device_name(gpu))
        if usable:
            yield _tested(f"NVDEC of cuda:{gpu}", lambda gpu=gpu: _told_nvdec(gpu))  # type: ignore[misc]
            yield _jpeg_engines(gpu)
            yield _tested(f"cuda:{gpu}", lambda gpu=gpu: _decode_on_gpu(_film(), gpu))  # type: ignore[misc]


def _told_nvdec(gpu: int) -> str:
    found = nvdec_capabilities(gpu)
    codecs = dict.fromkeys(each["codec"] for each in found)
    engines = max((each["engines"] for each in found), default=0)
    return f"{counted(engines, 'engine')}: {', '.join(codecs)}" if found else "no codec"


def _jpeg_engines(gpu: int) -> Finding:
    from videoloader.decoding.jpeg_engine import why_not_jpeg_engine

    reason = why_not_jpeg_engine(gpu)
    return Finding("GPU", f"JPEG engines of cuda:{gpu}", "note" if reason else "ok", reason or "usable")


def _tested(name: str, test: Callable[[], str]) -> Finding:
    """The finding of a test; any error that it raises is the fault."""
    group = "GPU" if name.startswith("NVDEC") else "decode test"
    begin = time.perf_counter()
    try:
        told = test()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Finding(group, name, "wrong", reason, "please report this, with the output of videoloader doctor --json")
    return Finding(group, name, "ok", told if group == "GPU" else f"{told}, {time.perf_counter() - begin:.2f} s")


def _film() -> bytes:
    """A short film of gray pictures, each slightly lighter than the one before, made by the first available encoder."""
    name = next(each for each in ("libx264", "libopenh264", "mpeg4") if each in av.codecs_available)
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(name, rate=25)
        stream.width, stream.height, stream.pix_fmt = *_SIZE, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 25)
        for number in range(_FRAMES):
            gray = np.full((_SIZE[1], _SIZE[0], 3), _gray(number), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(gray)))
        container.mux(stream.encode())
    return file.getvalue()


def _gray(number: int) -> int:
    return 40 + 5 * number


def _decode_on_cpu(film: bytes) -> str:
    from videoloader.video import Video

    video = Video(film, device="cpu")
    frames = video[:]
    means = frames.float().mean((1, 2, 3)).numpy()
    wanted = np.array([_gray(number) for number in range(_FRAMES)])
    if len(means) != _FRAMES or np.abs(means - wanted).max() > _GRAY_TOLERANCE:
        raise ValueError(f"{_FRAMES} gray pictures come out as {len(means)} of {np.round(means).astype(int).tolist()}")
    return f"{_FRAMES} frames of {video.codec} are right"


def _decode_on_gpu(film: bytes, gpu: int) -> str:
    from videoloader.video import Video

    video = Video(film, device=f"cuda:{gpu}", decode="nvdec")
    frames = video[:].cpu().short()
    difference = int((frames - Video(film, device="cpu")[:].short()).abs().max())
    if difference > _ENGINE_TOLERANCE:
        raise ValueError(f"NVDEC's pixels are up to {difference} codes from the CPU's")
    return f"{_FRAMES} frames of {video.codec} by NVDEC are those of the CPU"
