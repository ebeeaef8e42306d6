"""Maps names from other libraries to this library's arguments, attributes and modules, for error messages.

The names come from PyTorch's DataLoader, torchvision, torchcodec, decord, DALI, PyTorchVideo and MMAction2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

# Names here, and their synonyms elsewhere. The first name that exists is suggested; near misses need no entry.
_SYNONYMS = """
alpha: mixup_alpha; bins: num_magnitude_bins; class_names: class_to_idx classes; clips: clips_per_video num_clips;
count: frames num_frames num_samples; dataset: path; device: ctx device_id gpu;
fps: average_fps frame_rate get_avg_fps; frames: clip data image images imgs pixel_values video videos x;
frames_per_segment: num_frames; header: names; class_names: names; labels: label targets y;
layout: data_format output_format; length: clip_len clip_length frames frames_per_clip;
length: num_frames num_samples sequence_length; m: magnitude; mode: frames padding_mode; n: num_ops;
p: flip_ratio prob; num_shards: num_replicas world_size; num_workers: num_threads threads; pad: padding_mode;
paths: video_paths; prefetch: prefetch_queue_depth; ratio: aspect_ratio_range; ratios: weights;
root: data_prefix data_root; scale: area_range; seconds: timestamp; seed: generator; separator: delimiter sep;
shape: size; shard_id: rank shard; share: train_size; shuffle: batch_sampler random_shuffle sampler;
size: crop_size height image_size img_size input_size; size: resize shape short_side width; source: path video_path;
path: annotation_file name video_path; split: random_split train_test_split; start_seconds: start_time; stop: end;
stop_seconds: end_sec end_time; stride: dilation frame_interval frame_step sampling_rate step;
table: column_names columns; timestamps: fps pts; transforms: augmentations pipeline;
ColorJitter: ColorAugment RandomBrightnessContrast; Normalize: NormalizeVideo; Perspective: RandomPerspective;
PythonFunction: Lambda; RandomHorizontalFlip: Flip RandomFlip; RandomResizedCrop: MultiScaleCrop ScaleJitter;
Resize: Rescale Scale ShortSideScale; Segments: UniformSample;
ToFloat: ConvertImageDtype ConvertUint8ToFloat Div255 ToTensor ToTensorV2 ToTensorVideo;
Video: EncodedVideo VideoDecoder VideoReader; VideoDataset: VideoClips; VideoLoader: DataLoader"""
# What to write where no single name will do. Each row begins with the place that it applies to: a function with that
# argument, objects of that class, or modules ("import").
_INSTEAD = """
batch_size: clip_sampler clips length stride = give it to the mode, as RandomWindow(16, stride=4)
batch_size stride: fps = write AtRate(fps, length), a mode of its own
class_names: clip_sampler clips fps length step_between_clips = give it to the loader's mode, as RandomWindow(16)
class_names: is_valid_file loader = leave it out, extensions=[…] says which files are videos, and the loader reads them
class_names: split train = name the folder of the split, as VideoDataset.from_folder("kinetics/train")
class_names: transform transforms = give it to the loader, as VideoLoader(data, mode, transforms=[…])
collate: collate_fn = write collate="stack", "pad" or "list"
condition: min_width = write condition="width >= …"
dataset: file_root filenames labels paths root video_path = give it to the dataset, as VideoDataset.from_folder(root)
device: pin_memory = leave it out, frames lie on the device asked for (see Batch.pin_memory)
entries: folder root = write VideoDataset.from_folder(root)
jitter: test_mode = write jitter=False
last_batch: drop_last = write last_batch="drop"
mean: inplace to_bgr to_rgb = leave it out, frames are RGB, and new
num_workers: in_order pin_memory_device timeout = leave it out, batches come in order, and on the device asked for
num_workers: multiprocessing_context persistent_workers = leave it out, threads and processes last as long as the loader
seed: epochs num_epochs = leave it out, each loop over the loader is an epoch
seed: worker_init_fn = leave it out, all that is random follows from seed
share: random_state = write seed
share: test_size = write the other share, as data.split(0.8) for a test_size of 0.2
source: dimension_order size = leave it out, frames are [3, H, W]; video.read has layout= and transforms=
source: num_ffmpeg_threads num_threads seek_mode = leave it out, all cores are used, and every frame is exact
transforms: mean size std = give it to a transform, as transforms=[Resize(224), Normalize()]
Batch: cpu cuda = write batch.to("cuda") or batch.to("cpu")
LoaderStats: fps rate throughput = write print(stats), or stats.clips / stats.seconds
Batch: class_names classes = write data.class_names[label], of the data set
Batch: items keys = write batch.frames, batch.labels, …
ClipDataset: data frames images label labels mask path paths videos = write clips[0], a dict with frames, label, path, …
Clip: labels = write batch.labels; clips of a Video have none
IndexStore: add build = write build_store(paths, store)
IndexStore: items paths sources videos = write store.query("SELECT source FROM videos")
Video: count_frames frame_count num_frames = write len(video)
Video: get_batch get_frames_at = write video[[0, 5, 9]]
Video: get_clip get_frames_played_in_range = write video.between(2.0, 4.0)
Video: get_frame_at get_frame_played_at seek seek_accurate = write video[5] or video.at(1.5)
Video: get_frame_timestamp = write video.timestamps[5]
Video: get_frames_in_range skip_frames = write video[10:40:2]
Video: get_frames_played_at = write video.read(Timestamps([0.5, 1.5]))
Video: get_key_indices = write video.read_clips(Keyframes())
Video: data frames = write video[:], or for frame in video
Video: get_metadata metadata = write video.fps, video.duration, video.shape or video.codec
Video: audio get_audio = read it with another library, videoloader decodes pictures alone
Video: get grab isOpened read_frame release retrieve = write video[5], for frame in video, video.fps or video.close()
Video: n_frames nframes = write len(video)
Video: resolution size = write video.width and video.height, or video.shape
Video: next = write for frame in video
Video: transform transforms = write video.read(mode, transforms=[…])
PackedStrings VideoDataset: append extend insert = write data + VideoDataset.from_paths([…]), which is another data set
PackedStrings VideoDataset: clear pop remove reverse sort = write data[[0, 3]], which is another data set
VideoDataset: map shuffle transform transforms = write VideoLoader(data, …, shuffle=True, transforms=[…])
VideoDataset: column columns = write entry.columns of a row, or data.table.column(name)
VideoDataset: df to_pandas = make a DataFrame of data.paths and data.labels
VideoDataset: duration fps num_frames shape = write print(data.describe()), or Video(data.paths[0]) for one
VideoDataset: num_clips = write VideoLoader(data, mode, …).num_clips
VideoDataset: from_annotations from_file from_json from_jsonl from_table = write VideoDataset.from_csv("rows.jsonl")
VideoDataset: from_dataframe from_df from_pandas = write VideoDataset.from_paths(df["path"], df["label"])
VideoDataset: from_dict from_files from_list from_pairs = write VideoDataset.from_paths(paths, labels)
VideoDataset: samples = write data.paths and data.labels
VideoDataset: select = write data[[0, 3]]
VideoIndex: fps frame_rate = write video.fps
VideoLoader: batch_sampler epoch sampler = write loader.set_epoch(epoch); the order is chosen by shuffle=
VideoLoader: class_names classes num_classes = write data.class_names, of the data set
VideoLoader: to = write device="cuda", where the VideoLoader is made
VideoLoader: dataset = write loader.num_clips for the clips in an epoch; the data set is what the loader was made of
VideoLoader: epoch_size num_batches size = write len(loader) for batches, write loader.num_clips for clips
VideoLoader: next reset run = write for batch in loader: every loop is an epoch
import: ClipDataset ClipRequest DecodingLoader = write videoloader.interop.torch.{}
import: ApplyTransformToKey Collect FormatShape PermuteDims RemoveKey = leave it out (see VideoLoader's layout)
import: AugMix ElasticTransform RandomPhotometricDistort = write torchvision.transforms.v2.{}(), in the list
import: RandomAdjustSharpness = write RandomApply(Sharpness(2), p=0.5)
import: RandomAffine = write Affine((-10, 10), translate=(0.1, 0.1), scale=(0.8, 1.2))
import: RandomAutocontrast = write RandomApply(AutoContrast(), p=0.5)
import: RandomBrightness RandomContrast RandomHue RandomSaturation = write ColorJitter(0.4, 0.4, 0.4, 0.1)
import: RandomClip RandomClipSampler RandomTemporalCrop TemporalRandomCrop = write RandomWindow, a frame mode
import: RandomEqualize = write RandomApply(Equalize(), p=0.5)
import: RandomGamma = write Gamma((0.7, 1.5))
import: RandomInvert = write RandomApply(Invert(), p=0.5)
import: RandomPosterize = write RandomApply(Posterize(4), p=0.5)
import: RandomRescale RandomShortSideScale RandomShortestSize = write RandomChoice([Resize(256), Resize(320)])
import: RandomRotation = write Rotate((-10, 10))
import: RandomSolarize = write RandomApply(Solarize(128), p=0.5)
import: DenseSampleFrames SampleFrames make_clip_sampler = write a frame mode, as RandomWindow(16) or Segments(8)
import: TemporalCenterCrop UniformClipSampler = write EvenWindows, a frame mode
import: UniformSampleFrames UniformTemporalSubsample = write UniformFrames, a frame mode
import: bridge = leave it out, frames are tensors always
import: Dataset from_csv from_folder from_paths = write VideoDataset.from_folder(root), .from_csv or .from_paths
import: load open read = write Video(path)
import: ClipSampler = write a frame mode, as RandomWindow(16)
import: cpu gpu = write device="cpu" or device="cuda"
import: interop = write from videoloader.interop.torch import ClipDataset (or lightning, huggingface, arrays, ray)
import: k400 ssv2 = write layouts.kinetics or layouts.something_something
import: read_video = write Video(path)[:]"""


def _by_name(rows: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each name from elsewhere, the places where it means something and what to say there."""
    meanings: dict[str, dict[str, str]] = {}
    for row in rows:
        places, names, *texts = re.split(": | = ", row.strip(), maxsplit=2)
        for name in names.split():
            meanings.setdefault(name, {}).update(dict.fromkeys(places.split(), "".join(texts).format(name)))
    return meanings


_OURS, _SAID = _by_name(_SYNONYMS.split(";")), _by_name(_INSTEAD.strip().splitlines())


def meant(given: str, known: Collection[str], places: Collection[str] | None = None, of: str = "") -> str | None:
    """Advice on what to write in place of a name from another library; None where nothing here corresponds to it.

    Args:
        given: the unknown name.
        known: the names that exist.
        places: the places where the name was looked up: names of classes, or "import"; None for the known names.
        of: the text to put before the name, such as "video.".

    Examples:
        >>> meant("drop_last", ["last_batch"]), meant("num_threads", ["num_workers"])
        ('write last_batch="drop"', 'write num_workers')
    """

    def said(name: str) -> str | None:
        return next((text for place, text in _SAID.get(name, {}).items() if place in (places or known)), None)

    ours = _OURS.get(given, {})
    synonym = next((f"write {of}{each}" for each in ours if each in known), None)
    return said(given) or synonym or next(filter(None, map(said, ours)), None)


def alike(given: str, known: Collection[str], of: str = "", otherwise: str = "") -> str:
    """Advice to write the known name that is spelled most alike, whatever the case.

    Args:
        given, known, of: as in ``meant``.
        otherwise: advice where none is close; the known names by default.

    Examples:
        >>> alike("Strides", ["shuffle", "stride"]), alike("zzz", ["shuffle", "stride"])
        ('write stride', 'it takes shuffle, stride')
    """
    close = nearest(given, known)
    return f"write {of}{close}" if close else otherwise or f"it takes {', '.join(known) or 'none'}"


def nearest(given: str, known: Iterable[Any]) -> str | None:
    """The known name that is spelled most alike, whatever the case; None where none is close."""
    by_lower = {each.lower(): each for each in known if isinstance(each, str)}
    close = [by_lower[each] for each in get_close_matches(given.lower(), by_lower, n=1, cutoff=0.75)]
    # One name may be a prefix of the other.
    close += [each for each in by_lower.values() if len(given) > 2 and each.startswith(given)]
    close += [each for each in by_lower.values() if given.startswith(f"{each}_")]
    return close[0] if close else None
