"""Converts frames to arrays of other frameworks without copying.

``batch.frames`` and ``batch.labels`` are torch tensors, which support DLPack. Nothing more is needed for:

- NumPy: ``batch.frames.numpy()``, on the CPU; NumPy has no bfloat16.
- JAX: ``jax.dlpack.from_dlpack(batch.frames)``, which waits for the frames and keeps their memory while it is used.

For CuPy and TensorFlow, the functions here add the synchronisation that these leave to the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from videoloader.errors import ConfigurationError, needs
from videoloader.errors.argument_names import tells_of_arguments

__all__ = ["to_cupy", "to_tensorflow"]

if TYPE_CHECKING:
    import cupy


@tells_of_arguments
def to_cupy(tensor: torch.Tensor) -> cupy.ndarray:
    """A CUDA tensor as a CuPy array, for use on CuPy's current stream.

    That stream waits for PyTorch's pending work. PyTorch keeps the memory until the stream has finished all work queued
    before both tensor and array are freed, which CuPy's own conversion does not ensure.

    Raises:
        ConfigurationError: the tensor is not on a CUDA device, or CuPy is not installed.

    Examples:
        >>> means = to_cupy(batch.frames).mean((1, 3, 4))
    """
    if not tensor.is_cuda:
        raise ConfigurationError(f"CuPy's arrays lie on CUDA devices, not on {str(tensor.device)!r}")
    with needs("needs CuPy: pip install 'videoloader[cuda12]' or 'videoloader[cuda13]'"):
        import cupy
    with cupy.cuda.Device(tensor.device.index):
        array = cupy.from_dlpack(tensor)
        tensor.record_stream(torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr, tensor.device))  # type: ignore[no-untyped-call]
    return array


@tells_of_arguments
def to_tensorflow(tensor: torch.Tensor) -> Any:
    """A tensor as a TensorFlow tensor.

    TensorFlow does not expose the stream on which it works. So on a CUDA device this waits until PyTorch's current
    stream is done, and the tensor must be kept until TensorFlow has used its memory.

    Raises:
        ConfigurationError: TensorFlow is not installed.

    Examples:
        >>> logits = keras_model(to_tensorflow(batch.frames))
    """
    with needs("needs TensorFlow: pip install tensorflow"):
        import tensorflow
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensorflow.experimental.dlpack.from_dlpack(tensor.detach().__dlpack__())
