"""Train a small network in JAX, which uses the loader's frames where they are, without a copy.

pip install jax
python samples/jax_training/train.py
python samples/jax_training/train.py /data/my_videos      # class sub-folders
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

# JAX reserves most of a GPU's memory when it starts, and NVDEC needs some.
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.6")
import jax
import jax.numpy as jnp
import torch

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset

LENGTH, STRIDE, SIZE = 8, 3, 24

Weights = list[tuple[jax.Array, jax.Array]]


def new_weights(key: jax.Array, sizes: list[int]) -> Weights:
    """Random weights for layers of these sizes."""
    keys = jax.random.split(key, len(sizes))
    layers = zip(keys, sizes, sizes[1:], strict=False)
    return [(jax.random.normal(each, (size, after)) * size**-0.5, jnp.zeros(after)) for each, size, after in layers]


def scores(weights: Weights, frames: jax.Array) -> jax.Array:
    """float32[B, classes] of uint8[B, T, H, W, 3], which is also the layout of JAX's convolutions."""
    gray = frames.astype(jnp.float32).mean(-1)
    # For each shift, how well a shifted frame fits the next one. The mean over time holds whatever does not move.
    spectrum = jnp.fft.fft2(gray - gray.mean(1, keepdims=True))
    fits = jnp.fft.ifft2(spectrum[:, :-1].conj() * spectrum[:, 1:]).real.mean(1).reshape(len(gray), SIZE * SIZE)
    values = 10 * fits / (jnp.linalg.norm(fits, axis=1, keepdims=True) + 1e-6)
    for weight, bias in weights[:-1]:
        values = jax.nn.relu(values @ weight + bias)
    weight, bias = weights[-1]
    logits: jax.Array = values @ weight + bias
    return logits


def loss_of(weights: Weights, frames: jax.Array, labels: jax.Array) -> jax.Array:
    told = jax.nn.log_softmax(scores(weights, frames))
    loss: jax.Array = -jnp.take_along_axis(told, labels[:, None], 1).mean()
    return loss


@jax.jit
def step(weights: Weights, momentum: Weights, frames: jax.Array, labels: jax.Array) -> tuple[Weights, Weights, Any]:
    """One step of gradient descent with momentum."""
    loss, slope = jax.value_and_grad(loss_of)(weights, frames, labels)
    momentum = jax.tree.map(lambda before, now: 0.9 * before + now, momentum, slope)
    return jax.tree.map(lambda weight, change: weight - 0.01 * change, weights, momentum), momentum, loss


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network in JAX.")
    parser.add_argument("folder", type=Path, nargs="?", help="class sub-folders of videos")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--videos", type=int, default=32, help="videos of each class to write if no folder is given")
    parser.add_argument("--require-accuracy", type=float, default=0.0, help="exit with 1 below this (0 to 1)")
    args = parser.parse_args()

    folder = args.folder
    if folder is None:
        folder = Path("jax_videos")
        if not folder.exists():
            write_dataset(folder, args.videos, ("down", "growing", "up"), [(160, 120)])
    train, test = vl.VideoDataset.from_folder(folder).split(0.75, stratified=True)
    # The frames are made on the device that JAX uses, so they are not copied.
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    settings: dict[str, Any] = dict(batch_size=8, device=device, transforms=[vl.Resize((SIZE, SIZE))], layout="THWC")
    train_loader = vl.VideoLoader(
        train, vl.RandomWindow(LENGTH, stride=STRIDE, clips=4), shuffle=True, last_batch="drop", **settings
    )
    test_loader = vl.VideoLoader(test, vl.EvenWindows(LENGTH, stride=STRIDE, clips=1), **settings)

    weights = new_weights(jax.random.key(0), [SIZE * SIZE, 64, train.num_classes])
    momentum = jax.tree.map(jnp.zeros_like, weights)
    reached = 0.0
    for epoch in range(args.epochs):
        losses = []
        for batch in train_loader:
            # Both use the same memory, so keep the batch until JAX has used it; loss.item() waits for that.
            frames, labels = jnp.from_dlpack(batch.frames), jnp.from_dlpack(batch.labels)
            weights, momentum, loss = step(weights, momentum, frames, labels)
            losses.append(loss.item())
        right = [
            (scores(weights, jnp.from_dlpack(batch.frames)).argmax(1) == jnp.from_dlpack(batch.labels)).sum().item()
            for batch in test_loader
        ]
        reached = sum(right) / len(test)
        print(f"epoch {epoch + 1:2}: loss {sum(losses) / len(losses):.3f}, accuracy {reached:.1%}")
    return int(reached < args.require_accuracy)


if __name__ == "__main__":
    sys.exit(main())
