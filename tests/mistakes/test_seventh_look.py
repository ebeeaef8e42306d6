"""Values of the right type that Python, NumPy or PyTorch cannot work with."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, first, loader, video

import videoloader as vl
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.interop.torch import BatchStream, ClipDataset, ClipRequest, DecodingLoader, list_clips, stack_clips

MANY = 2**62 + 2  # so many for each of four videos are eight to NumPy
WITHOUT_DATA = torch.tensor(2, device="meta")


def deep(levels: int = 100_000) -> list:
    """A list in a list in a list, and so on."""
    nested: list = []
    for _ in range(levels):
        nested = [nested]
    return nested


def sample(**changed: object) -> dict[str, object]:
    return {**ClipDataset(data(), [0, 1])[0], **changed}


def resumed(**changed: object) -> None:
    made = loader()
    made.load_state_dict(made.state_dict() | changed)


def resumed_stream(**changed: object) -> None:
    stream = BatchStream(loader)
    next(iter(stream))
    BatchStream(loader).load_state_dict(stream.state_dict() | changed)


def resumed_requests(**changed: object) -> None:
    requests = torch.utils.data.DataLoader([ClipRequest("a.mp4", [0])], batch_size=1, collate_fn=list)
    made = DecodingLoader(requests, device="cpu", num_workers=0)
    made.load_state_dict(made.state_dict() | changed)


MOST = "clips must be an integer in [1, 16777216], got 4611686018427387906"
MISTAKES: Mistakes = {
    "triplets without end": (lambda: first(vl.Triplets(clips=MANY)), MOST),
    "tuples without end": (lambda: first(vl.FrameTuples([0], [1], clips=MANY)), MOST),
    "clips at a rate without end": (lambda: first(vl.AtRate(5, 2, clips=MANY)), MOST),
    "a border without end": (
        lambda: vl.Compose([vl.Pad(2**64)])(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)),
        "Compose fails with what it was given (TypeError: ",
    ),
    "a crop without end": (
        lambda: video().read([0], transforms=[vl.CenterCrop((10**400, 1))]),
        "Video.read fails with what it was given (OverflowError: ",
    ),
    "a folder with a zero byte": (lambda: vl.FolderSource("a\0b"), "FolderSource"),
    "names that cannot be found": (
        lambda: vl.VideoDataset.from_paths(["a.mp4"], class_names={"a": {}}),
        "VideoDataset.from_paths",
    ),
    "a shuffle without numbers": (lambda: loader(shuffle=torch.tensor(1.0)), "VideoLoader"),
    "lists of several lengths": (lambda: vl.plan_frames(video().index, [[1], 2]), "plan_frames"),
    "weights without data": (lambda: data().weighted(torch.empty(2, device="meta")), "VideoDataset.weighted"),
    "operations without data": (lambda: vl.AutoAugment(operations=WITHOUT_DATA), "AutoAugment"),
    "complex magnitudes": (
        lambda: vl.augmentation(magnitudes=torch.tensor([1j]))(lambda frames, magnitude: frames),
        "augmentation",
    ),
    "two mistakes": (lambda: vl.RandomWindow(lenght=3, stride=np.timedelta64(3, "s")), "has no argument lenght"),
    "deep data sets": (lambda: vl.VideoDataset.mix(deep()), "VideoDataset.mix"),
    "deep transforms": (lambda: vl.RandomOrder(deep()), "RandomOrder"),
    "deep videos": (lambda: vl.verify(deep()), "verify"),
    "deep pictures": (lambda: vl.show(deep()), "show"),
    "no samples": (lambda: stack_clips(1.5), "stack_clips"),
    "samples without frames": (lambda: stack_clips([sample(frames=1), sample()]), "stack_clips"),
    "samples of no layout": (lambda: stack_clips([sample(layout="XYZ"), sample()]), "stack_clips"),
    "samples without a matrix": (lambda: stack_clips([sample(source_matrix=1.0), sample()]), "stack_clips"),
    "samples with a text as label": (lambda: list_clips([sample(label="a"), sample()]), "list_clips"),
    "a state without data": (lambda: resumed(parts=WITHOUT_DATA), "load_state_dict"),
    "a state with a duration": (
        lambda: resumed_requests(requests=np.timedelta64(3, "s")),
        "not the state of a ",
    ),
    "a state with several seeds": (lambda: resumed_requests(seed=np.array([1, 2])), "DecodingLoader.load_state_dict"),
    "a state under several ways": (lambda: resumed_stream(under_way=np.array([1, 2])), "BatchStream.load_state_dict"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


@pytest.mark.parametrize("index", [WITHOUT_DATA, torch.tensor([1, 2], device="meta")])
def test_an_index_without_data_is_no_index(index: torch.Tensor) -> None:
    for indexed in (video(), data(), ClipDataset(data(), [0, 1])):
        with pytest.raises(TypeError, match=r"must be|are chosen by|are asked for by"):
            indexed[index]


@pytest.mark.parametrize("error", [ValueError("mine"), RuntimeError("mine"), IndexError("mine"), KeyError("mine")])
def test_errors_of_a_users_function_stay_as_they_are(error: Exception) -> None:
    def names() -> Iterator[str]:
        raise error
        yield

    with pytest.raises(type(error)) as raised:
        vl.VideoDataset.from_paths(names())
    assert raised.value is error


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: an illegal memory access"), OSError(5, "Input/output error"), StopIteration()]
)
def test_errors_that_no_argument_causes_stay_as_they_are(error: Exception) -> None:
    namespace = {"__name__": "videoloader.of_the_library", "error": error}
    exec("def fails(size: int) -> None:\n    raise error", namespace)
    with pytest.raises(type(error)) as raised:
        tells_of_arguments(namespace["fails"])(3)
    assert raised.value is error
