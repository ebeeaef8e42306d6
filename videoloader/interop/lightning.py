"""``VideoDataModule``: VideoLoaders in a Lightning Trainer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from videoloader.batching.batch import Batch
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.interop.epoch_loop import EpochLoop, check_maker
from videoloader.loader import VideoLoader

__all__ = ["VideoDataModule"]


def _lightning() -> Any:
    """Lightning by the package name that the program uses: the two packages reject each other's modules."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        names.reverse()
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ConfigurationError("needs Lightning: pip install 'videoloader[lightning]'")


class _SameEpoch:
    """A VideoLoader that repeats the same epoch, so that evaluations are comparable."""

    def __init__(self, loader: VideoLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        self._loader.set_epoch(0)
        return iter(self._loader)


class VideoDataModule(_lightning().LightningDataModule):  # type: ignore[misc]
    """A ``LightningDataModule`` (Lightning 2) of VideoLoaders, with one shard on its own device for each rank.

    Training resumes in the middle of an epoch, exact to the clip, from any checkpoint taken after a batch or an epoch.
    To resume with another number of ranks, give the Trainer ``reload_dataloaders_every_n_epochs=1``, so that it counts
    batches anew. Evaluations see the same clips, with the same random frames, every time.

    If ``max_steps`` ends training within an epoch, Lightning counts that epoch as finished. A checkpoint that is saved
    afterwards resumes with the rest of its clips, so none is lost, but Lightning counts them as the next epoch. So
    ``max_epochs`` of the resumed training must be larger by one.

    Args:
        train, val, test, predict: functions, default None. Each makes a loader, called as ``train(device=…, shard_id=…,
            num_shards=…)`` with the Trainer's values; usually a ``functools.partial`` of ``VideoLoader``.

    Raises:
        ConfigurationError: Lightning is not installed, the Trainer fits without ``train``, or an argument is not such a
            function.

    Examples:
        >>> videos = VideoDataModule(
        ...     train=partial(VideoLoader, train_data, RandomWindow(16, stride=4), batch_size=8, shuffle=True),
        ...     val=partial(VideoLoader, val_data, EvenWindows(16, stride=4, clips=1), batch_size=8),
        ... )
        >>> Trainer(max_epochs=10).fit(model, datamodule=videos)
    """

    @tells_of_arguments
    def __init__(
        self,
        *,
        train: Callable[..., VideoLoader] | None = None,
        val: Callable[..., VideoLoader] | None = None,
        test: Callable[..., VideoLoader] | None = None,
        predict: Callable[..., VideoLoader] | None = None,
    ) -> None:
        super().__init__()
        self._makers = {"train": train, "val": val, "test": test, "predict": predict}
        for stage, make in self._makers.items():
            if make is not None:
                check_maker(stage, make)
        self._train: EpochLoop | None = None
        self._state: Mapping[str, Any] | None = None

    def train_dataloader(self) -> EpochLoop:
        """The training batches, from the same loader every time, which advances from epoch to epoch."""
        if self._train is None:
            made = self._loaders("train")
            if not made:
                raise ConfigurationError("this VideoDataModule has no train loader")
            self._train = EpochLoop(made[0])
            if self._state is not None:
                self._train.load_state_dict(self._state)
        return self._train

    def val_dataloader(self) -> list[_SameEpoch]:
        """The validation batches."""
        return [_SameEpoch(loader) for loader in self._loaders("val")]

    def test_dataloader(self) -> list[_SameEpoch]:
        """The test batches."""
        return [_SameEpoch(loader) for loader in self._loaders("test")]

    def predict_dataloader(self) -> list[_SameEpoch]:
        """The batches to predict on."""
        return [_SameEpoch(loader) for loader in self._loaders("predict")]

    def _loaders(self, stage: str) -> list[VideoLoader]:
        make, trainer = self._makers[stage], self.trainer
        if make is None:
            return []
        device = trainer.strategy.root_device
        return [make(device=device, shard_id=trainer.global_rank, num_shards=trainer.world_size)]

    def state_dict(self) -> dict[str, Any]:
        """The position of training, which Lightning saves in checkpoints."""
        state = self._state if self._train is None else self._train.state_dict(self.trainer.num_training_batches)
        return {} if state is None else {"train": state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume where a checkpoint was taken."""
        self._state = state_dict.get("train")
        if self._train is not None and self._state is not None:
            self._train.load_state_dict(self._state)
