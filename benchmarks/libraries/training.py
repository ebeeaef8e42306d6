"""A network of torchvision's, trained from videoloader or on one batch that never changes."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any

import torch
from torchvision.models import video as networks

import videoloader as vl
from libraries.place import Place, synchronize

_CLASSES = 400
_CLIPS_A_FILE = 400
# Before the warm-up: in the first cuDNN tries its kernels, for seconds.
_FIRST_STEPS = 3
_BARE_SESSIONS = 8


def training(
    files: list[str],
    seconds: float,
    warmup: float,
    place: Mapping[str, Any],
    batches: str,
    network: str,
    batch: int,
    length: int,
    stride: int,
    side: int,
    channels_last: bool,
    read_loss: bool,
    packets: float,
) -> dict[str, float]:
    """Steps a second.

    Args:
        files: the videos.
        seconds, warmup: of counting and before that.
        place: of this process.
        batches: ``"loader"``: clips with the usual recipe; ``"fixed"``: the same tensor every time; ``"fixed, NVDEC"``:
            the same tensor, while bare NVDEC sessions decode ``packets`` for each frame and nobody takes the pictures,
            which is the least that a loader on the same GPU costs; ``"loader alone"``: no network, so that it shows
            what the loader can do.
        network: its name in ``torchvision.models.video``.
        batch: clips in a step.
        length, stride: frames in a clip, and their distance.
        side: of the frames.
        channels_last: the memory format.
        read_loss: whether each step reads its loss, and so waits for the GPU, which idles until the next one begins.
        packets: that are decoded for a frame, with ``batches="fixed, NVDEC"``.
    """
    here = Place(**place)
    train = None if batches == "loader alone" else _trainer(network, here.device, channels_last, read_loss)
    if batches.startswith("fixed"):
        generator = torch.Generator(here.device).manual_seed(0)
        dtype = torch.float16 if here.kind == "cuda" else torch.float32
        frames = torch.randn((batch, 3, length, side, side), device=here.device, generator=generator, dtype=dtype)
        labels = torch.arange(batch, device=here.device) % _CLASSES

        with ExitStack() as stack:
            decode = stack.enter_context(_bare_nvdec(files[0])) if "NVDEC" in batches else None

            def fixed() -> None:
                if decode is not None:
                    decode(round(batch * length * packets))
                train(frames, labels)

            _warm_up(fixed, warmup, here.device)
            figures = {"steps/s": _rate(fixed, seconds, here.device)}
    else:
        mode = vl.RandomWindow(length, stride=stride, clips=_CLIPS_A_FILE)
        with _endless(files, mode, batch, side, here.device) as (loader, coming):

            def step() -> None:
                made = next(coming)
                if train is None:
                    synchronize(here.device)
                else:
                    train(made.frames, made.labels)

            _warm_up(step, warmup, here.device)
            before = loader.stats()
            figures = {"steps/s": _rate(step, seconds, here.device)}
            stats = loader.stats() - before
            figures |= {"% waiting": 100 * stats.waiting / stats.seconds, "packets/frame": stats.packets / stats.frames}
    if here.kind == "cuda":
        figures["GB"] = torch.cuda.max_memory_reserved() / 1e9
    return {**figures, "clips/s": figures["steps/s"] * batch}


@lru_cache(1)
def _trainer(
    network: str, device: torch.device, channels_last: bool, read_loss: bool
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """One step of training: forward and backward in half precision, and stochastic gradient descent."""
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    format_ = torch.channels_last_3d if channels_last else torch.contiguous_format
    model = getattr(networks, network)(num_classes=_CLASSES).to(device, memory_format=format_).train()
    # Only then the scaler does not wait for the GPU in every step.
    fused = device.type == "cuda"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=fused)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    half = torch.float16 if device.type == "cuda" else torch.bfloat16

    def step(frames: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(device.type, half):
            loss = torch.nn.functional.cross_entropy(model(frames.to(memory_format=format_)), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if read_loss:
            loss.item()

    return step


@contextmanager
def _bare_nvdec(file: str) -> Iterator[Callable[[int], None]]:
    """A function that lets threads decode so many packets more; it waits while they are two steps behind."""
    from libraries.nvdec import PACKETS_A_CALL, session

    calls, ended = queue.SimpleQueue(), threading.Event()

    def work() -> None:
        decode, payloads = session(file)
        for payload in itertools.cycle(payloads):
            calls.get()
            if ended.is_set():
                return
            decode(payload)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(_BARE_SESSIONS)]
    for thread in threads:
        thread.start()

    def more(packets: int) -> None:
        count = packets // PACKETS_A_CALL
        while calls.qsize() > 2 * count:
            time.sleep(0.001)
        for _ in range(count):
            calls.put(None)

    try:
        yield more
    finally:
        ended.set()
        for _ in threads:
            calls.put(None)
        for thread in threads:
            thread.join()


@contextmanager
def _endless(
    files: list[str], mode: Any, batch: int, side: int, device: torch.device
) -> Iterator[tuple[vl.VideoLoader, Iterator[vl.Batch]]]:
    data = vl.VideoDataset.from_paths(files, [number % _CLASSES for number in range(len(files))])
    loader = vl.VideoLoader(
        data,
        mode,
        batch_size=batch,
        device=device,
        transforms=[vl.RandomResizedCrop(side), vl.RandomHorizontalFlip(), vl.RandAugment(2, 9), vl.Normalize()],
        layout="CTHW",
        dtype="float16" if device.type == "cuda" else "float32",
        shuffle=True,
        last_batch="drop",
    )

    def coming() -> Iterator[vl.Batch]:
        while True:
            yield from loader

    batches = coming()
    try:
        yield loader, batches
    finally:
        batches.close()


def _warm_up(step: Callable[[], None], seconds: float, device: torch.device) -> None:
    for _ in range(_FIRST_STEPS):
        step()
    synchronize(device)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
    synchronize(device)


def _rate(step: Callable[[], None], seconds: float, device: torch.device) -> float:
    """Steps a second, the GPU's work at the end of the last one included; it is not waited for in between."""
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() < start + seconds:
        step()
        count += 1
    synchronize(device)
    return count / (time.perf_counter() - start)
