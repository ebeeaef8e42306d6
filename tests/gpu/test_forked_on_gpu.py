"""A process that is forked from one that has used the GPU: the CPU works there, and nothing of the parent ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from changing_streams import write_h264
from forked_programs import IN_CHILD

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

# Defines objects on the GPU that are in use.
_PREAMBLE = (
    IN_CHILD
    + """
import gc, time, warnings
import torch
import videoloader as vl
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader, stack_clips

warnings.simplefilter("ignore")
paths = sys.argv[1:]
data = vl.VideoDataset.from_paths(paths)

def new(**settings):
    return vl.VideoLoader(data, vl.EveryWindow(2), batch_size=2, device="cuda", num_workers=2, **settings)

def begun(loader):
    loop = iter(loader)
    next(loop)
    return loop

def refuses(function, words):
    try:
        function()
    except vl.ConfigurationError as error:
        return words in str(error) or print(error)

signal.alarm(300)
loader, cached = new(), new(gop_cache=1 << 28)
loop, cached_loop = begun(loader), begun(cached)
requests = [[ClipRequest(path, vl.FrameList([3, 4]))] for path in paths * 4]
decoding = DecodingLoader(requests, device="cuda", num_workers=2)
decoding_loop = begun(decoding)
video = vl.Video(paths[0], device="cuda")
stream = video.stream()
next(stream)
time.sleep(0.5)  # in which batches get ready
"""
)
_EARLIER, _CUDA = "started before the process was forked", "cannot be used in this process"
_PROGRAMS = {
    "garbage of the parent is left alone": """
gc.collect()
gc.disable()
for _ in range(3):
    next(iter(new()))
def collected():
    gc.collect()
    return vl.Video(paths[0], device="cpu")[3].shape == video.shape[1:]
assert in_child(collected) == 7

clips = ClipDataset(data, vl.RandomWindow(2))
settings = dict(batch_size=2, num_workers=2, collate_fn=stack_clips, worker_init_fn=lambda _: gc.collect())
assert sum(len(batch) for batch in torch.utils.data.DataLoader(clips, **settings)) == len(paths)
""",
    "loops of the parent do not go on": f"""
for each in (loop, cached_loop, decoding_loop, stream):
    assert in_child(lambda: refuses(lambda: next(each), {_EARLIER!r})) == 7
    assert in_child(lambda: each.close() is None) == 7
""",
    "objects of the parent may be dropped": """
def dropped(*names):
    for name in names:
        del globals()[name]
    gc.collect()
    return True
for names in "loop", "loop loader", "cached_loop cached", "decoding_loop decoding", "stream video":
    assert in_child(lambda: dropped(*names.split())) == 7, names
for each in (loader, cached, video):
    assert in_child(lambda: each.close() is None) == 7
""",
    "CUDA is refused in words": f"""
for use in (
    lambda: vl.Video(paths[0], device="cuda"), new, lambda: vl.set_decoder_memory(1 << 30),
    lambda: video[3], lambda: video[2:9], lambda: video.read([1]), lambda: video.read_clips(vl.EveryWindow(4)),
    video.stream, lambda: next(iter(loader)), lambda: next(iter(decoding)),
):
    assert in_child(lambda: refuses(use, {_CUDA!r})) == 7
assert in_child(lambda: vl.Video(paths[0]).device.type == "cpu") == 7
""",
}


@pytest.mark.parametrize("about", _PROGRAMS)
def test_in_a_forked_process(tmp_path: Path, about: str) -> None:
    paths = [write_h264(tmp_path / f"{number}.mp4", 3, frames=40) for number in range(3)]
    # The parent's objects have lost nothing.
    program = _PREAMBLE + _PROGRAMS[about] + "\nprint(len(list(loop)), len(list(stream)), len(list(decoding_loop)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "29 39 11"), done.stderr[-4000:]
    assert not done.stderr
