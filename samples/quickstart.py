"""The smallest useful program: it turns a folder of videos into batches of clips.

python samples/quickstart.py [folder with class sub-folders]
"""

import sys
import tempfile
from pathlib import Path

from make_videos import write_video

import videoloader as vl

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
else:
    folder = Path(tempfile.mkdtemp())
    for motion in ("left_to_right", "growing"):
        (folder / motion).mkdir()
        write_video(folder / motion / "video.mp4", motion)

# A data set: one row per video, with labels from the names of the sub-folders.
data = vl.VideoDataset.from_folder(folder)
print(f"{len(data)} videos, classes {data.class_names}")

# One video: read any frame by its exact number.
video = vl.Video(data[0].path)
print(f"{len(video)} frames, {video.timestamps[-1]:.3f} s, frame 10: {tuple(video[10].shape)} {video[10].dtype}")
clip = video.read(vl.RandomWindow(16, stride=4))
print("a clip:", clip.frame_numbers.tolist())

# Batches for training: random 16×4 clips, augmented, float32 [B, C, T, H, W].
loader = vl.VideoLoader(
    data,
    vl.RandomWindow(16, stride=4),
    batch_size=8,
    transforms=[vl.RandomResizedCrop(112), vl.RandomHorizontalFlip(), vl.Normalize()],
    layout="CTHW",
    dtype="float32",
    shuffle=True,
)
for batch in loader:
    print("a batch:", tuple(batch.frames.shape), batch.frames.dtype, "labels", batch.labels.tolist())
