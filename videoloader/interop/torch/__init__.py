"""Clips for torch DataLoaders.

``DecodingLoader`` decodes in the main process, on the GPU or the CPU, what data sets in worker processes request by
``ClipRequest``. ``ClipDataset`` decodes on the CPU in the worker processes themselves. ``BatchStream`` turns a
``VideoLoader`` into a data set of batches.
"""

from videoloader.interop.torch.batch_stream import BatchStream
from videoloader.interop.torch.clip_dataset import ClipDataset, list_clips, stack_clips
from videoloader.interop.torch.clip_request import ClipRequest
from videoloader.interop.torch.decoding_loader import DecodingLoader

__all__ = ["BatchStream", "ClipDataset", "ClipRequest", "DecodingLoader", "list_clips", "stack_clips"]
