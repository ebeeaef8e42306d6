"""Mistakes with one video, and with names of the package."""

# mypy: ignore-errors
from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from first_day import Mistakes, check_answer, video

import videoloader as vl


def closed() -> vl.Video:
    with vl.Video("a.mp4", device="cpu") as opened:
        return opened


MISTAKES: Mistakes = {
    "a path that is not there": (lambda: vl.Video("nope.mp4"), "nope.mp4 … cannot be opened (No such file"),
    "an empty file": (lambda: vl.Video("empty.mp4"), "empty.mp4 … is empty"),
    "text in place of a video": (lambda: vl.Video("text.mp4"), "text.mp4: libavformat cannot … Invalid data found"),
    "half a video": (lambda: vl.Video("half.mp4"), "half.mp4: has no moov box … not an mp4 file, or cut off"),
    "a folder of videos": (
        lambda: vl.Video("classes"),
        "classes: holds no image files; it contains: 2 folder; VideoDataset.from_folder and `videoloader d",
    ),
    "a path of the shell": (
        lambda: vl.Video("~/a.mp4"),
        "~/a.mp4: cannot be opened (No such file or directory): os.path.expanduser(path) expands ~",
    ),
    "a line of a list of paths": (
        lambda: vl.Video("a.mp4\n"),
        "cannot be opened (No … directory): the path ends with wh",
    ),
    "all frames by name": (lambda: video().frames, "a Video has no attribute frames: write video[:], or for frame in"),
    "None for a source": (lambda: vl.Video(None), "source must be a path, a URL, bytes, a binary … got None"),
    "the number of a camera": (lambda: vl.Video(0), "source must be a path, a URL, bytes, a binary … got 0"),
    "a list of paths": (lambda: vl.Video(["a.mp4", "b.mp4"]), "source must be a path, a … got ['a.mp4'"),
    "a video of a video": (lambda: vl.Video(video()), "source must be a path, a URL, bytes … got Video('a.mp4'..."),
    "bytes that are no video": (lambda: vl.Video(b"abc"), "<bytes>: libavformat cannot … Invalid data found"),
    "a file opened as text": (lambda: vl.Video(io.StringIO("text")), "opened as text … open it with mode 'rb'"),
    "no such device": (lambda: vl.Video("a.mp4", device="gpu"), "device must be 'auto', 'cpu', 'cuda' or … got 'gpu'"),
    "decord's number for a device": (lambda: vl.Video("a.mp4", device=0), "device must be 'auto', 'cpu' … got 0"),
    "None for a device": (lambda: vl.Video("a.mp4", device=None), "Video's device must be a … got None … such as"),
    "a device in capitals": (lambda: vl.Video("a.mp4", device="CPU"), "device must be 'auto', 'cpu' … got 'CPU'"),
    "no such engine": (lambda: vl.Video("a.mp4", device="cpu", decode="gpu"), "decode must be one of … got 'gpu'"),
    "the path of a store for an index": (
        lambda: vl.Video("a.mp4", device="cpu", index="t.db"),
        "index must be a VideoIndex, got 't.db' … IndexStore(path).get(source) gives one",
    ),
    "a colour by name": (
        lambda: vl.Video("a.mp4", device="cpu", fill_value="red"),
        "fill_value must be one or three numbers in [0, 255], got 'red'",
    ),
    "a colour above 255": (
        lambda: vl.Video("a.mp4", device="cpu", fill_value=300),
        "fill_value must be one or three numbers in [0, 255], got 300",
    ),
    "a colour of two numbers": (
        lambda: vl.Video("a.mp4", device="cpu", fill_value=(1, 2)),
        "fill_value must be one or three numbers in [0, 255], got (1, 2)",
    ),
    "no such way with damage": (
        lambda: vl.Video("a.mp4", device="cpu", on_corrupt="skip"),
        "on_corrupt must be one of … got 'skip'",
    ),
    "decord's ctx": (lambda: vl.Video("a.mp4", ctx="cpu(0)"), "Video has no argument ctx … write device"),
    "decord's num_threads": (lambda: vl.Video("a.mp4", num_threads=4), "Video has no argument … leave it out, all"),
    "decord's width": (lambda: vl.Video("a.mp4", width=224), "Video has no argument width … leave it out, frames"),
    "torchcodec's seek_mode": (lambda: vl.Video("a.mp4", seek_mode="exact"), "Video has no argument … leave it out"),
    "torchcodec's dimension_order": (
        lambda: vl.Video("a.mp4", dimension_order="NHWC"),
        "Video has no argument dimension_order … leave it out, frames are [3, H, W]; video.read",
    ),
    "torchcodec's num_ffmpeg_threads": (
        lambda: vl.Video("a.mp4", num_ffmpeg_threads=4),
        "Video has no argument num_ffmpeg_threads … leave it out, all cores are used",
    ),
    "the device by position": (lambda: vl.Video("a.mp4", "cpu"), "Video takes source by … write device='cpu'"),
    "no source": (lambda: vl.Video(), "Video needs the argument source"),
    "a frame after the end": (lambda: video()[30], "a.mp4 … frame 30 is outside the video's 30 frames"),
    "a frame before the start": (lambda: video()[-31], "a.mp4 … frame -31 is outside the video's 30 frames"),
    "a frame in a list after the end": (lambda: video()[[0, 99]], "a.mp4 … frame 99 is outside the video's"),
    "a float": (lambda: video()[1.5], "the index of a video must be an integer, a … got 1.5"),
    "True": (lambda: video()[True], "the index of a video must be an integer, a … got True"),
    "a string": (lambda: video()["0"], "the index of a video must be an integer, a … got '0'"),
    "None for a frame": (lambda: video()[None], "the index of a video must be an integer, a … got None"),
    "an ellipsis": (lambda: video()[...], "the index of a video must be an integer, a … got Ellipsis"),
    "a tuple": (lambda: video()[0, 1], "the index of a video must be an integer, a … got (0, 1)"),
    "numpy's way with columns": (lambda: video()[:, 0], "the index of a video must be an … got (slice(None, None"),
    "an array of floats": (lambda: video()[np.array([0.0, 1.0])], "the index of a video … got float64 of"),
    "a list in a list": (lambda: video()[[[0, 1]]], "the index of a video must be an integer, a … got [[0, 1]]"),
    "seconds in a slice": (lambda: video()[0.5:1.5], "the ends of a slice … got slice(0.5 … video.between(sta"),
    "a step of 0": (lambda: video()[::0], "the ends of a slice must be … got slice(None … video.between(start"),
    "decord's get_batch": (lambda: video().get_batch([1, 2]), "a Video has no attribute … write video[[0, 5"),
    "decord's get_avg_fps": (lambda: video().get_avg_fps(), "a Video has no attribute … write video.fps"),
    "decord's get_frame_timestamp": (lambda: video().get_frame_timestamp(3), "a Video has no attribute … write"),
    "decord's get_key_indices": (lambda: video().get_key_indices(), "a Video has no attribute … write"),
    "decord's seek": (lambda: video().seek(3), "a Video has no attribute seek … write video[5] or video.at(1.5)"),
    "decord's next": (lambda: video().next(), "a Video has no attribute next … write for frame in video"),
    "torchcodec's metadata": (lambda: video().metadata.num_frames, "a Video has no attribute … write video.fps"),
    "torchcodec's get_frames_at": (lambda: video().get_frames_at([1]), "a Video has no … write video[[0"),
    "torchcodec's get_frame_played_at": (lambda: video().get_frame_played_at(1.0), "a Video has no … write"),
    "torchcodec's get_frames_played_at": (
        lambda: video().get_frames_played_at([0.1, 0.2]),
        "a Video has no attribute get_frames_played_at … write video.read(Timestamps([0.5, 1.5]))",
    ),
    "torchcodec's get_frames_in_range": (lambda: video().get_frames_in_range(0, 10), "a Video has no … write"),
    "PyTorchVideo's get_clip": (lambda: video().get_clip(0, 1), "a Video has no attribute … write"),
    "a number of frames": (lambda: video().num_frames, "a Video has no attribute num_frames … write len(video)"),
    "a frame rate": (lambda: video().frame_rate, "a Video has no attribute frame_rate … write video.fps"),
    "a tensor's method on a video": (lambda: video().permute(0, 2, 3, 1), "a Video has no attribute … write"),
    "a tensor's method on a clip": (lambda: video().read([0]).numpy(), "a Clip has no attribute … write"),
    "a device of a clip": (lambda: video().read([0]).cuda(), "a Clip has no attribute cuda … write"),
    "labels of a clip": (lambda: video().read([0]).labels, "a Clip has no attribute labels … write batch.labels"),
    "a slip of the pen": (lambda: video().duratoin, "a Video has no attribute duratoin … write video.duration"),
    "a transform that is set": (lambda: setattr(video(), "transform", abs), "a Video has no attribute … write"),
    "a device that is set": (lambda: setattr(video(), "device", "cuda"), "device of a Video … make another"),
    "a rate that is set": (lambda: setattr(video(), "fps", 10), "fps of a Video cannot be set … make another"),
    "a colour that is set later": (lambda: setattr(video(), "fill_value", 255), "a Video has no … it is only an"),
    "frames of a clip that are set": (
        lambda: setattr(video().read([0]), "frames", None),
        "frames of a Clip cannot be set … dataclasses.replace(clip, frames=",
    ),
    "a frame number for a mode": (lambda: video().read(3), "mode must be a frame mode, such as … got 3"),
    "a slice for a mode": (lambda: video().read(slice(0, 5)), "mode must be a frame mode … got slice(0, 5"),
    "the class of a mode": (lambda: video().read(vl.RandomWindow), "mode must be a frame mode … got the class"),
    "a word for a mode": (lambda: video().read("random"), "mode must be a frame mode, such as … got 'random'"),
    "None for a mode": (lambda: video().read(None), "mode must be a frame mode, such as … got None"),
    "a transform for a mode": (lambda: video().read(vl.Resize(32)), "mode must be a frame … got Resize(size=3.."),
    "floats for a mode": (lambda: video().read([0.1, 0.2]), "mode must be a frame mode, such as … got [0.1, 0.2]"),
    "lists in a list for a mode": (lambda: video().read([[0, 1], [2, 3]]), "mode must be a frame … got [[0, 1], [2"),
    "no frames": (lambda: video().read([]), "frames must be a list of one or more"),
    "a listed frame after the end": (lambda: video().read([0, 9999]), "a.mp4 … frame 9999 is outside the 30"),
    "a second clip of one": (lambda: video().read(vl.RandomWindow(4), clip=1), "a.mp4: clip 1 of … frames 0 to 30"),
    "a clip that does not fit": (
        lambda: video().read(vl.RandomWindow(500, pad="none")),
        "a.mp4: clip 0 of RandomWindow(length=500, stride=1, clips=1 … frames 0 to 30 give 0 clips",
    ),
    "a seed that is a word": (lambda: video().read(vl.RandomWindow(4), seed="a"), "seed must be an … got 'a'"),
    "a negative seed": (lambda: video().read(vl.RandomWindow(4), seed=-1), "seed must be an integer in [0 … got -1"),
    "a seed of None": (lambda: video().read(vl.RandomWindow(4), seed=None), "seed must be an integer in … got None"),
    "a clip number that is a word": (
        lambda: video().read(vl.RandomWindow(4), clip="0"),
        "clip must be an integer in [0, 2**64), got '0'",
    ),
    "half a clip number": (lambda: video().read(vl.RandomWindow(4), clip=0.5), "clip must be an … got 0.5"),
    "a word for a time": (lambda: video().at("1"), "seconds must be a finite number, got '1'"),
    "None for a time": (lambda: video().at(None), "seconds must be a finite number, got None"),
    "several times": (lambda: video().at([0.1, 0.2]), "seconds must be a finite number, got [0.1, 0.2]"),
    "no number for a time": (lambda: video().at(float("nan")), "seconds must be a finite number, got nan"),
    "an end before the start": (lambda: video().between(0.5, 0.1), "stop must be after start, got start=0.5"),
    "words for times": (lambda: video().between("0", "1"), "start must be a finite number, got '0'"),
    "a rate of 0": (lambda: video().between(0, 0.5, fps=0), "fps must be positive, got 0"),
    "a word for a rate": (lambda: video().between(0, 0.5, fps="8"), "fps must be a finite number, got '8'"),
    "a closed video": (lambda: closed()[0], "a.mp4: is closed … create a new Video to read from it"),
    "an index of a path that is a list": (
        lambda: vl.build_index(["a.mp4"]),
        "source must be a path, a URL, bytes, a binary file or a ByteSource, of … got ['a.mp4']",
    ),
    "a frame of a clip": (lambda: video().read([0])[0], "a clip is not a list of frames: write clip.frames[0]"),
    "next of a video": (lambda: next(video()), "a video is not its own iterator: write next(iter(video))"),
    "a table for build_index": (
        lambda: vl.build_index(vl.VideoDataset.from_paths(["a.mp4"])),
        "source must be a path … write dataset.build_store(store)",
    ),
    "an index of None": (lambda: vl.build_index(None), "source must be a path, a URL, bytes, a binary … got None"),
    "a plan without an index": (lambda: vl.plan_frames("a.mp4", [0]), "plan_frames's index must be a … got 'a.mp4'"),
    "memory in words": (lambda: vl.set_decoder_memory("1G"), "limit must be a positive integer, got '1G'"),
    "a folder source of a number": (lambda: vl.FolderSource(1), "FolderSource's path must be a string … got 1"),
    "a folder source without a rate": (lambda: vl.FolderSource("classes", fps=0), "fps must be"),
    "one frame to stream": (lambda: video().stream(5), "Video.stream's frames must be a slice … got 5"),
    "listed frames to stream": (lambda: video().stream([0, 1]), "Video.stream's frames must be a slice … got [0, 1]"),
    "a range to stream": (lambda: video().stream(range(3)), "such as slice(10, 40), got range(0, 3): video[…] takes"),
    "memory of a stream in words": (lambda: video().stream(memory="1G"), "memory must be a positive … got '1G'"),
    "memory of a stream below 0": (lambda: video().stream(memory=-1), "memory must be a positive … got -1"),
    "another name of memory": (lambda: video().stream(mem=1), "Video.stream has no argument mem: write memory"),
    "decord's VideoReader": (lambda: vl.VideoReader, "module videoloader has no attribute … write Video"),
    "torchcodec's VideoDecoder": (lambda: vl.VideoDecoder, "module videoloader has no attribute … write Video"),
    "PyTorchVideo's EncodedVideo": (lambda: vl.EncodedVideo, "module videoloader has no attribute … write Video"),
    "torchvision's read_video": (lambda: vl.read_video, "module videoloader has no … write Video(path)[:]"),
    "decord's cpu": (lambda: vl.cpu, 'module videoloader has no attribute cpu … write device="cpu"'),
    "a slip in a class's name": (lambda: vl.RandomWindows, "module videoloader has no … write RandomWindow"),
    "small letters": (lambda: vl.videoloader, "module videoloader has no attribute videoloader … write VideoLoader"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
