"""VideoDataModule in a Lightning Trainer: its batches, and exact resumption from checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from late_modules import LateModule
from torch.utils.data import DataLoader, DistributedSampler
from torch_datasets import Captioned

import videoloader as vl
from videoloader.interop.torch import DecodingLoader

pl = LateModule("pytorch_lightning", reason="needs Lightning")
interop = LateModule("videoloader.interop.lightning", reason="needs Lightning")
Sample = Callable[[str], Path]
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
BATCHES = 5


@cache
def recorder_type() -> Any:
    """Of a class, whose base is imported late."""

    class Recorder(pl.LightningModule):
        """Learns next to nothing, and remembers which clips and frames it saw in which step."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.trained: list[tuple[int, list[int], list[Any]]] = []
            self.validated: list[list[Any]] = []

        def training_step(self, batch: vl.Batch) -> torch.Tensor:
            assert batch.frames.device == self.device
            self.trained.append((self.current_epoch, batch.clips.tolist(), batch.frame_numbers.tolist()))
            return (self.weight - batch.frames.float().mean() / 255) ** 2

        def validation_step(self, batch: vl.Batch) -> None:
            self.validated.append(batch.frame_numbers.tolist())

        def test_step(self, batch: vl.Batch) -> None:
            self.validated.append(batch.frame_numbers.tolist())

        def predict_step(self, batch: vl.Batch) -> list[str]:
            return batch.paths

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Recorder


def recorder() -> Any:
    return recorder_type()()


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample(name) for name in ("h264_mp4", "vp9_webm", "hevc_mp4")], [0, 1, 2])


def module_of(data: vl.VideoDataset, *stages: str) -> Any:
    make = partial(vl.VideoLoader, data, vl.RandomWindow(2, clips=3), batch_size=2, num_workers=1, seed=5)
    return interop.VideoDataModule(**{stage: partial(make, shuffle=stage == "train") for stage in stages or ("train",)})


def trainer_of(folder: Path, **settings: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    defaults = {"max_epochs": 3, "enable_checkpointing": False, "default_root_dir": folder}
    return pl.Trainer(**(quiet | defaults | settings))


@pytest.fixture(scope="module")
def uninterrupted(data: vl.VideoDataset, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    model = recorder()
    trainer_of(tmp_path_factory.mktemp("whole")).fit(model, datamodule=module_of(data))
    return model.trained


def test_epochs_hold_every_clip_once(uninterrupted: list[Any]) -> None:
    assert [epoch for epoch, _, _ in uninterrupted] == [epoch for epoch in range(3) for _ in range(BATCHES)]
    orders = []
    for epoch in range(3):
        orders.append([clip for number, clips, _ in uninterrupted if number == epoch for clip in clips])
        assert sorted(orders[-1]) == list(range(9))
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("steps", [1, 4, 5, 7, 10])
def test_a_checkpoint_after_any_step_resumes_exactly(
    data: vl.VideoDataset, tmp_path: Path, uninterrupted: list[Any], steps: int
) -> None:
    before, after = recorder(), recorder()
    keep = pl.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=steps, save_top_k=-1, filename="{step}")
    settings = {"callbacks": [keep], "enable_checkpointing": True}
    trainer_of(tmp_path, max_steps=steps + 1, **settings).fit(before, datamodule=module_of(data))
    assert before.trained == uninterrupted[: steps + 1]
    trainer_of(tmp_path).fit(after, datamodule=module_of(data), ckpt_path=tmp_path / f"step={steps}.ckpt")
    assert after.trained == uninterrupted[steps:]


def test_a_checkpoint_after_an_epoch_resumes_with_the_next(
    data: vl.VideoDataset, tmp_path: Path, uninterrupted: list[Any]
) -> None:
    before, after = recorder(), recorder()
    trainer = trainer_of(tmp_path, max_epochs=1)
    trainer.fit(before, datamodule=module_of(data))
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    trainer_of(tmp_path).fit(after, datamodule=module_of(data), ckpt_path=tmp_path / "after.ckpt")
    assert before.trained + after.trained == uninterrupted


@pytest.mark.parametrize("steps", [1, 7])
def test_a_checkpoint_after_a_fit_that_ended_within_an_epoch_resumes_with_the_next_clip(
    data: vl.VideoDataset, tmp_path: Path, uninterrupted: list[Any], steps: int
) -> None:
    before, after = recorder(), recorder()
    trainer = trainer_of(tmp_path, max_steps=steps)
    trainer.fit(before, datamodule=module_of(data))
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    trainer_of(tmp_path, max_epochs=4).fit(after, datamodule=module_of(data), ckpt_path=tmp_path / "after.ckpt")
    assert [shown for _, *shown in before.trained + after.trained] == [shown for _, *shown in uninterrupted]
    assert after.trained[0][0] == uninterrupted[steps][0] + 1  # Lightning counts the rest as another epoch


def test_evaluations_see_the_same_frames_every_time(data: vl.VideoDataset, tmp_path: Path) -> None:
    model, module = recorder(), module_of(data, "train", "val", "test", "predict")
    trainer = trainer_of(tmp_path, max_epochs=2, num_sanity_val_steps=1)
    trainer.fit(model, datamodule=module)
    assert len(model.validated) == 1 + 2 * BATCHES
    assert model.validated[0] == model.validated[1]
    assert model.validated[1 : 1 + BATCHES] == model.validated[1 + BATCHES :]
    model.validated.clear()
    trainer.test(model, datamodule=module, verbose=False)
    assert len(model.validated) == BATCHES
    predicted = trainer.predict(model, datamodule=module)
    assert [path for batch in predicted for path in batch] == [entry.path for entry in data for _ in range(3)]


def test_an_epoch_cut_short_by_the_trainer_is_followed_by_another(
    data: vl.VideoDataset, tmp_path: Path, uninterrupted: list[Any]
) -> None:
    model = recorder()
    trainer_of(tmp_path, limit_train_batches=2).fit(model, datamodule=module_of(data))
    assert model.trained == [uninterrupted[epoch * BATCHES + batch] for epoch in range(3) for batch in range(2)]


@pytest.mark.parametrize("limit", [2, 0.4])
def test_a_checkpoint_after_an_epoch_cut_short_resumes_with_the_next(
    data: vl.VideoDataset, tmp_path: Path, uninterrupted: list[Any], limit: float
) -> None:
    keep = pl.callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    settings = {"limit_train_batches": limit, "callbacks": [keep], "enable_checkpointing": True}
    trainer_of(tmp_path, **settings).fit(recorder(), datamodule=module_of(data))
    after = recorder()
    trainer = trainer_of(tmp_path, limit_train_batches=limit)
    trainer.fit(after, datamodule=module_of(data), ckpt_path=tmp_path / "epoch=0.ckpt")
    assert after.trained == [uninterrupted[epoch * BATCHES + batch] for epoch in (1, 2) for batch in range(2)]


def test_a_decoding_loader_resumes_exactly(data: vl.VideoDataset, tmp_path: Path) -> None:
    class RequestRecorder(recorder_type()):  # type: ignore[misc]
        def training_step(self, batch: dict[str, Any]) -> torch.Tensor:
            self.trained.append(
                (self.current_epoch, batch["row"].tolist(), batch["video"].float().mean((1, 2, 3, 4)).tolist())
            )
            return self.weight**2

    def loader() -> DecodingLoader:
        rows = Captioned([entry.path for entry in data], 9, seeded=False)
        sampler = DistributedSampler(rows, num_replicas=1, rank=0)
        return DecodingLoader(DataLoader(rows, batch_size=2, sampler=sampler), device="cpu", num_workers=1)

    whole, before, after = RequestRecorder(), RequestRecorder(), RequestRecorder()
    trainer_of(tmp_path).fit(whole, loader())
    assert len({str(rows) for _, rows, _ in whole.trained[::BATCHES]}) == 3  # Lightning tells the sampler the epoch
    keep = pl.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=7, save_top_k=-1, filename="{step}")
    trainer_of(tmp_path, max_steps=8, callbacks=[keep], enable_checkpointing=True).fit(before, loader())
    trainer_of(tmp_path).fit(after, loader(), ckpt_path=tmp_path / "step=7.ckpt")
    assert before.trained[:7] + after.trained == whole.trained


def test_each_rank_gets_its_shard(data: vl.VideoDataset) -> None:
    clips = []
    for rank in range(2):
        module = module_of(data)
        module.trainer = _Ranks(rank, 2)
        clips += [clip for batch in module.train_dataloader() for clip in batch.clips.tolist()]
    assert sorted(clips) == list(range(9))


class _Ranks:
    def __init__(self, global_rank: int, world_size: int) -> None:
        self.global_rank, self.world_size, self.strategy = global_rank, world_size, self
        self.root_device = torch.device("cpu")


def test_a_checkpoint_of_a_module_that_has_not_trained_since_it_resumed(data: vl.VideoDataset) -> None:
    module = interop.VideoDataModule(train=partial(vl.VideoLoader, data, [0], batch_size=1))
    state = {"train": {"loader": {}, "under_way": 3, "batches": 7}}
    module.load_state_dict(state)
    assert module.state_dict() == state


def test_fitting_without_a_train_loader_is_refused(data: vl.VideoDataset, tmp_path: Path) -> None:
    with pytest.raises(vl.ConfigurationError, match="no train loader"):
        trainer_of(tmp_path).fit(recorder(), datamodule=module_of(data, "val"))
