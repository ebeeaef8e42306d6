"""videoloader doctor: its findings, and its advice where something is missing or broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from commands import run, run_json

import videoloader as vl
from videoloader.cli import diagnosis
from videoloader.cli.diagnosis import Finding

WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def by_name(told: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in told["findings"]}


def test_a_machine_that_works_is_exit_code_0() -> None:
    found = by_name(run_json("doctor"))
    assert found["version"]["told"] == vl.__version__
    assert found["torch"]["told"] == torch.__version__
    assert found["cpu"]["state"] == "ok"
    assert "30 frames of" in found["cpu"]["told"]
    assert "are right" in run("doctor").stdout


def test_what_is_not_there_is_a_note_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("videoloader.convert.native.native_code", lambda: None)
    told = run_json("doctor")
    found = by_name(told)
    assert told["ok"]
    assert found["pyarrow"] == {
        "group": "package",
        "name": "pyarrow",
        "state": "note",
        "told": "not installed (Parquet, saved data sets)",
        "advice": "pip install 'videoloader[parquet]'",
    }
    assert "compiler" in found["native code"]["advice"]


def test_a_command_to_copy_is_whole_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("videoloader.cli.terminal.out._width", 60)
    told = run("doctor").stdout
    last = "".join(line.split("│")[-2].strip() for line in told.splitlines() if line.startswith("│"))
    assert "…" not in told
    assert "'videoloader[parquet]'" in last


def test_a_decoder_that_gives_other_pictures_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    film = diagnosis._film()
    monkeypatch.setattr(diagnosis, "_film", lambda: film)
    monkeypatch.setattr(diagnosis, "_gray", lambda number: 200)
    done = run("doctor", "--json")
    assert done.exit_code == 1
    found = by_name(json.loads(done.stdout))["cpu"]
    assert found["state"] == "wrong"
    assert "30 gray pictures come out as 30 of [40" in found["told"]


def capabilities(_gpu: int, codec: str, chroma: str, bit_depth: int) -> SimpleNamespace:
    takes = (codec, chroma, bit_depth) in (("h264", "420", 8), ("hevc", "420", 10))
    return SimpleNamespace(supported=takes, min_width=48, min_height=16, max_width=4096, max_height=4096, num_engines=7)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that says it has a GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr("videoloader.decoding.capabilities.capabilities", capabilities)
    monkeypatch.setattr("videoloader.decoding.jpeg_engine.why_not_jpeg_engine", lambda _: "it has none")
    monkeypatch.setattr(diagnosis, "_decode_on_gpu", lambda film, gpu: "30 frames are right")
    return


@WITHOUT_GPU
def test_a_gpu_without_its_packages_is_wrong(gpu: None) -> None:
    done = run("doctor", "--json")
    found = by_name(json.loads(done.stdout))
    assert done.exit_code == 1
    assert found["PyNvVideoCodec"]["state"] == "wrong"
    assert found["PyNvVideoCodec"]["advice"] == "pip install 'videoloader[cuda13]'"
    assert "NVDEC of cuda:0" not in found


def test_what_nvdec_takes_is_told(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    told = run_json("doctor")
    found = by_name(told)
    assert found["NVDEC of cuda:0"]["told"] == "7 engines: h264, hevc"
    assert [(each["codec"], each["bit_depth"], each["largest"]) for each in told["nvdec"]["cuda:0"]] == [
        ("h264", 8, [4096, 4096]),
        ("hevc", 10, [4096, 4096]),
    ]
    assert "4096×4096" in run("doctor").stdout


def test_a_driver_that_fails_is_told_and_not_raised(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("libnvcuvid.so.1: cannot open shared object file")

    monkeypatch.setattr(diagnosis.importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr("videoloader.decoding.capabilities.capabilities", broken)
    done = run("doctor", "--json")
    assert done.exit_code == 1
    found = by_name(json.loads(done.stdout))["NVDEC of cuda:0"]
    assert found["told"] == "OSError: libnvcuvid.so.1: cannot open shared object file"


def test_a_driver_without_cuda_in_pytorch_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(diagnosis.Path, "exists", lambda path: True)
    for cuda, advice in ((None, "install PyTorch with CUDA"), ("13.0", "run nvidia-smi")):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        (found,) = diagnosis._gpus()
        assert found[:3] == Finding("GPU", "CUDA", "wrong", "", "")[:3]
        assert advice in found.advice
