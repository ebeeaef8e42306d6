"""PyNvVideoCodec's SimpleDecoder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import PyNvVideoCodec as nvc
import torch
from footage import FRAMES

from libraries.common import finish, random_clip, rate_of_threads


def random_clips(files: list[str], seconds: float, warmup: float, threads: int) -> dict[str, float]:
    """Clips a second; each thread keeps one decoder and moves it from file to file."""

    def make(number: int) -> Callable[[], int]:
        rng, stream = np.random.default_rng(number), torch.cuda.Stream()
        decoder = None

        def step() -> int:
            nonlocal decoder
            path = files[rng.integers(len(files))]
            with torch.cuda.stream(stream):
                if decoder is None:
                    decoder = nvc.SimpleDecoder(
                        path,
                        gpu_id=0,
                        use_device_memory=True,
                        output_color_type=nvc.OutputColorType.RGBP,
                        decoder_cache_size=4,
                        cuda_stream=stream.cuda_stream,
                    )
                else:
                    decoder.reconfigure_decoder(path)
                frames = decoder.get_batch_frames_by_index(random_clip(rng, FRAMES))
                finish(torch.stack([torch.from_dlpack(frame) for frame in frames]))
                stream.synchronize()
            return 1

        return step

    return {"clips/s": rate_of_threads(make, threads, seconds, warmup)}
