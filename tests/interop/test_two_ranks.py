"""Loaders in other frameworks on two ranks: together they see every clip once."""

from __future__ import annotations

import importlib.util
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_environment import child_environment
from forked_programs import run_program

Sample = Callable[[str], Path]

# Imports take most of the time, so one process makes them for both ranks. It has no thread of Python when it forks.
BEGINNING = """
import json, os, sys, warnings
from functools import partial
from pathlib import Path
import torch
from torch.utils.data import DataLoader
import videoloader as vl
from videoloader.interop.torch import BatchStream

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
data = vl.VideoDataset.from_paths(json.loads((folder / "paths.json").read_text()), [0, 1])
make = partial(
    vl.VideoLoader, data, vl.RandomWindow(2, clips=7), batch_size=2, device="cpu", num_workers=1, shuffle=True, seed=2
)


def tell(what, batches):
    (folder / f"{what}.{rank}.json").write_text(json.dumps([list(map(int, batch)) for batch in batches]))


def clips_of(loader):
    return [batch.clips for batch in loader]
"""

FORK = """
ranks = []
for rank in range(2):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        break
else:
    sys.exit(any([os.waitpid(each, 0)[1] for each in ranks]))
"""

ACCELERATE = """
accelerator = accelerate.Accelerator(cpu=True)
assert accelerator.num_processes == 2
tell("loader", clips_of(accelerator.prepare(make())))
tell("stream", clips_of(accelerator.prepare(BatchStream(make))))
tell("in a DataLoader", clips_of(DataLoader(BatchStream(make), batch_size=None)))
for workers in (0, 1):
    loader = accelerator.prepare(DataLoader(BatchStream(make), batch_size=None, num_workers=workers))
    if rank == 0:
        try:
            next(iter(loader))
        except vl.ConfigurationError as error:
            assert "leave its DataLoader out of prepare" in str(error), error
        else:
            raise AssertionError("prepared")
"""

FABRIC = """
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
tell("loader", clips_of(make()))
tell("in a DataLoader", clips_of(fabric.setup_dataloaders(DataLoader(BatchStream(make), batch_size=None))))
try:
    fabric.setup_dataloaders(make())
except TypeError as error:
    assert "Only PyTorch DataLoader" in str(error)
"""

TRAINER = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 2)

    def forward(self, frames, labels, clips):
        seen.append(clips.tolist())
        scores = self.last(frames.float().mean((1, 3, 4)) / 255)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def inputs_of(batch):
    return {"frames": batch.frames, "labels": batch.labels, "clips": torch.tensor(batch.clips)}


class VideoTrainer(Trainer):
    def get_train_dataloader(self):
        return DataLoader(stream, batch_size=None, collate_fn=inputs_of)  # not prepared


class SaveLoader(TrainerCallback):
    def on_save(self, args, state, control, **others):
        if state.is_world_process_zero:
            place = f"{args.output_dir}/checkpoint-{state.global_step}/loader.pt"
            torch.save(stream.state_dict(), place)


seen, stream = [], BatchStream(make)
steps = 2 * len(make())
settings = dict(report_to=[], use_cpu=True, save_steps=len(make()) + 1, max_steps=steps, disable_tqdm=True)
trainer = VideoTrainer(Net(), TrainingArguments(str(folder / "out"), **settings), callbacks=[SaveLoader()])
trainer.train()
tell("loader", seen[: len(make())])
whole, seen[:] = list(seen), []
torch.distributed.barrier()
at = len(make()) + 1
checkpoint = folder / "out" / f"checkpoint-{at}"
stream = BatchStream(make)
stream.load_state_dict(torch.load(checkpoint / "loader.pt", weights_only=False))
arguments = TrainingArguments(str(folder / "out"), ignore_data_skip=True, **settings)
VideoTrainer(Net(), arguments, callbacks=[SaveLoader()]).train(resume_from_checkpoint=str(checkpoint))
assert seen == whole[at:], (seen, whole)
"""


def run_on_two_ranks(folder: Path, paths: list[Path], imports: str, script: str) -> dict[str, list[list[int]]]:
    """What each of two processes told, by what it told of."""
    (folder / "paths.json").write_text(json.dumps([str(path) for path in paths]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    settings |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "1"}
    program = f"{imports}\n{BEGINNING}\n{FORK}\n{script}"
    done = run_program(program, folder, env=child_environment() | settings)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = {}
    for path in folder.glob("*.?.json"):
        told.setdefault(path.name.partition(".")[0], []).append(json.loads(path.read_text()))
    return told


@pytest.mark.parametrize(
    ("package", "imports", "script"),
    [
        ("accelerate", "import accelerate", ACCELERATE),
        ("lightning_fabric", "from lightning_fabric import Fabric", FABRIC),
        ("transformers", "from transformers import Trainer, TrainerCallback, TrainingArguments", TRAINER),
    ],
    ids=["accelerate", "lightning_fabric", "transformers"],
)
def test_every_clip_comes_once(sample: Sample, tmp_path: Path, package: str, imports: str, script: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    told = run_on_two_ranks(tmp_path, [sample("h264_mp4"), sample("vp9_webm")], imports, script)
    assert told
    for what, batches_of_ranks in told.items():
        clips = [clip for batches in batches_of_ranks for batch in batches for clip in batch]
        assert len(batches_of_ranks) == 2, what
        assert sorted(clips) == list(range(14)), what
