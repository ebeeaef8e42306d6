"""One file by NVDEC: random clips are those of the CPU engine on the same device, within an inverse DCT's rounding."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from soak.doors import Account, requests, tells_of_damage
from soak.libav_truth import undefined_frames

import videoloader as vl
from videoloader.errors import VideoLoaderError

# Codecs whose inverse DCT NVDEC rounds otherwise than libavcodec; differences add up from frame to frame.
IDCT_CODECS = ("mpeg1video", "mpeg2video", "mpeg4")
_MOST, _MEAN = 40, 2.0


def compare_on_cuda(path: Path, seed: int, clips: int, account: Account, *, damaged: bool = False) -> None:
    """Clips by NVDEC, alone and with what it leaves to the CPU, against a sequential decode by the CPU.

    Args:
        path: of the file.
        seed: of the clips.
        clips: how many.
        account: to write to.
        damaged: whether coded pictures may have come to harm. NVDEC tells nothing of that, nor of what the CPU engine
            says of other files: pictures that are cut off, or encrypted without a word. The same goes for pictures of
            which a part is what was in a decoder's memory.
    """
    try:
        video = vl.Video(path, device="cuda", decode="cpu")
        expected = [frame.cpu() for frame in video.stream(slice(0, 400))]
    except VideoLoaderError as error:
        account.refused(error)
        return
    undefined = cache(partial(undefined_frames, path))
    rounded = video.index.stream.codec in IDCT_CODECS
    open_videos = {decode: vl.Video(path, device="cuda", decode=decode) for decode in ("auto", "nvdec")}  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    for number, request in enumerate(requests(rng, len(expected), clips)):
        decode = ("auto", "nvdec")[number % 2]
        try:
            one = vl.Video(path, device="cuda", decode=decode) if request.new else open_videos[decode]  # type: ignore[arg-type]
            clip = one.read(list(request.frames))
        except VideoLoaderError as error:
            account.refused(error)
            continue
        account.checked += len(request.frames)
        account.marked += int(clip.corrupt.sum())
        for frame, picture, corrupt in zip(request.frames, clip.frames.cpu(), clip.corrupt, strict=True):
            if not corrupt and not _alike(picture, expected[frame], rounded=rounded):
                told = damaged or frame in undefined() or tells_of_damage(video, frame)
                kind = "damage untold" if told else "silent"
                account.found(f"{kind} on {decode}", f"{request}: frame {frame} is another")


def _alike(one: torch.Tensor, other: torch.Tensor, *, rounded: bool) -> bool:
    if not rounded:
        return torch.equal(one, other)
    difference = (one.int() - other.int()).abs()
    return int(difference.max()) <= _MOST and float(difference.float().mean()) <= _MEAN
