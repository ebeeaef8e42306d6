"""Write a small data set of real, encoded videos, with one folder for each class of motion.

Every frame carries its own number twice: as digits for people, and as a strip of black and white blocks
that survives lossy coding, so that ``read_frame_number`` can tell which frame a loader really delivered.

    python samples/make_videos.py demo_videos --videos-per-class 8
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Field = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]

MOTIONS = ("clockwise", "down", "growing", "left_to_right", "right_to_left", "up")
SIZES = ((160, 120), (240, 180), (320, 240))  # width, height


@dataclass(frozen=True)
class Codec:
    encoder: str
    container: str
    options: dict[str, str]


# Without mbtree=0 the same pictures encode to other bytes now and then.
X264 = {"preset": "veryfast", "crf": "23", "bf": "3", "g": "48", "x264-params": "mbtree=0"}
X265 = {"preset": "superfast", "crf": "25", "x265-params": "log-level=none:keyint=48:pools=1"}
CODECS = {
    "h264": Codec("libx264", "mp4", X264),
    "hevc": Codec("libx265", "mp4", X265),
    "vp9": Codec("libvpx-vp9", "webm", {"crf": "32", "b": "0", "cpu-used": "8", "g": "48"}),
}
VARIANTS = (("h264", False), ("hevc", False), ("vp9", False), ("h264", True))  # codec, variable rate

# The strip: one white block, 12 bits of the number, 2 parity bits, one black block. The outer two give the
# threshold and show whether the picture was mirrored or the strip cut off.
NUMBER_BITS = 12
STRIP_BLOCKS = NUMBER_BITS + 4
STRIP_HEIGHT = 1 / 10  # of the picture, at its bottom edge

# fmt: off
DIGITS = [  # 5 rows of 3 pixels each
    "111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
    "111100111001111", "111100111101111", "111001001001001", "111101111101111", "111101111001111",
]
# fmt: on


def _strip_bits(number: int) -> list[int]:
    bits = [number >> i & 1 for i in range(NUMBER_BITS)]
    return [1, *bits, sum(bits[::2]) % 2, 1 - sum(bits[1::2]) % 2, 0]


def paint_frame_number(image: Image, number: int) -> None:
    """Paint ``number`` into an RGB image [H, W, 3]: digits at the top left, a strip along the bottom.

    Raises:
        ValueError: the number needs more than 12 bits.
    """
    if not 0 <= number < 1 << NUMBER_BITS:
        raise ValueError(f"frame number {number} does not fit into {NUMBER_BITS} bits")
    height, width = image.shape[:2]
    edges = np.linspace(0, width, STRIP_BLOCKS + 1).round().astype(int)
    top = height - round(height * STRIP_HEIGHT)
    for bit, left, right in zip(_strip_bits(number), edges[:-1], edges[1:], strict=True):
        image[top:, left:right] = 235 if bit else 20

    scale = max(2, height // 48)
    text = [np.array(list(DIGITS[int(digit)]), int).reshape(5, 3) for digit in f"{number:03d}"]
    label = np.pad(np.hstack([np.pad(digit, ((0, 0), (0, 1))) for digit in text]), ((1, 1), (1, 0)))
    label = np.kron(label, np.ones((scale, scale), int))
    image[: label.shape[0], : label.shape[1]] = np.where(label, 255, 0)[..., None]


def read_frame_number(frame: npt.ArrayLike) -> int:
    """Read the number that ``paint_frame_number`` painted into a frame, even after scaling and lossy coding.

    Args:
        frame: the whole RGB picture [H, W, 3], not cropped, any number type and range.

    Raises:
        ValueError: there is no readable strip (cropped, mirrored, or not one of these videos).
    """
    picture = np.asarray(frame, np.float32)
    height, width = picture.shape[:2]
    # Only the middle of each block: neighbours bleed into its edges.
    top, bottom = round(height * (1 - 0.7 * STRIP_HEIGHT)), round(height * (1 - 0.25 * STRIP_HEIGHT))
    columns = picture[top : max(bottom, top + 1)].mean((0, 2))
    block = width / STRIP_BLOCKS
    levels = np.array(
        [columns[int((i + 0.3) * block) : int((i + 0.7) * block) + 1].mean() for i in range(STRIP_BLOCKS)]
    )
    white, black = levels[0], levels[-1]
    shades = (levels - black) / (white - black) if white > black else np.full(STRIP_BLOCKS, 0.5)
    bits = [int(shade > 0.5) for shade in shades]
    number = sum(bit << i for i, bit in enumerate(bits[1 : NUMBER_BITS + 1]))
    # Other pictures have greys here, or the wrong parity; a mirrored strip has black on the left.
    if np.any(np.abs(shades - bits) > 0.25) or bits != _strip_bits(number):
        raise ValueError("no painted frame number in this picture")
    return number


def _noise(rng: np.random.Generator, size: tuple[int, int], cells: int) -> Field:
    """Smooth random texture [H, W] in 0..1."""
    width, height = size
    coarse = rng.random((cells + 1, cells + 1), dtype=np.float32)
    y, x = np.linspace(0, cells, height, endpoint=False), np.linspace(0, cells, width, endpoint=False)
    row, column = y.astype(int), x.astype(int)
    down, right = (y - row)[:, None], x - column
    upper = coarse[row][:, column] * (1 - right) + coarse[row][:, column + 1] * right
    lower = coarse[row + 1][:, column] * (1 - right) + coarse[row + 1][:, column + 1] * right
    texture: Field = (upper * (1 - down) + lower * down).astype(np.float32)
    return texture


def _place(motion: str, turn: float, start: Numbers) -> tuple[float, float, float]:
    """Centre (x, y in picture widths and heights) and relative size of the blob after ``turn`` rounds."""
    x, y = start
    match motion:
        case "left_to_right":
            return x + turn, 0.2 + 0.5 * y, 1.0
        case "right_to_left":
            return x - turn, 0.2 + 0.5 * y, 1.0
        case "down":
            return 0.2 + 0.6 * x, y + turn, 1.0
        case "up":
            return 0.2 + 0.6 * x, y - turn, 1.0
        case "clockwise":
            angle = 2 * np.pi * (turn + x)
            return 0.5 + 0.27 * np.cos(angle), 0.45 + 0.27 * np.sin(angle), 0.8
        case "growing":
            return 0.3 + 0.4 * x, 0.3 + 0.3 * y, 0.4 + 1.3 * ((turn + x) % 1)
        case _:
            raise ValueError(f"unknown motion {motion!r}; known: {', '.join(MOTIONS)}")


def draw_frames(motion: str, seconds: Numbers, size: tuple[int, int], seed: int) -> list[Image]:
    """The RGB pictures [H, W, 3] of a textured blob that moves over a still background.

    Args:
        motion: one of ``MOTIONS``.
        seconds: when each frame is shown; the motion is even in time, not in frames.
        size: width and height, pixels.
        seed: gives position, speed, size, colours and background.
    """
    rng = np.random.default_rng(seed)
    width, height = size
    start, speed, radius = rng.random(2), rng.uniform(0.4, 0.8), rng.uniform(0.14, 0.22) * height
    dark, light = rng.uniform(20, 90, 3), rng.uniform(80, 150, 3)
    background = (dark + (light - dark) * _noise(rng, size, int(rng.integers(3, 9)))[..., None]).astype(np.float32)
    first, second = rng.uniform(120, 255, 3), rng.uniform(0, 120, 3)
    patch = _noise(rng, (64, 64), int(rng.integers(3, 7)))[..., None]
    texture = (first + (second - first) * np.round(patch * 3) / 3).astype(np.float32)

    frames = []
    for number, second_shown in enumerate(seconds):
        x, y, scale = _place(motion, float(speed * second_shown), start)
        # Leaves the picture on one side, comes back on the other.
        across = (np.arange(width) - x * width + width / 2) % width - width / 2
        along = (np.arange(height) - y * height + height / 2) % height - height / 2
        reach = radius * scale
        columns, rows = (
            np.flatnonzero(np.abs(across) <= reach + 1),
            np.flatnonzero(np.abs(along) <= reach + 1),
        )
        across, along = across[columns], along[rows]
        cover = np.clip(reach - np.hypot(across, along[:, None]) + 0.5, 0, 1)[..., None]
        pick_x, pick_y = (np.clip((d / reach + 1) * 32, 0, 63).astype(int) for d in (across, along))
        image = background.astype(np.uint8)
        under = np.ix_(rows, columns)
        image[under] = texture[np.ix_(pick_y, pick_x)] * cover + background[under] * (1 - cover)
        paint_frame_number(image, number)
        frames.append(image)
    return frames


def write_video(
    path: str | Path,
    motion: str = "left_to_right",
    codec: str = "h264",
    num_frames: int = 90,
    size: tuple[int, int] = (320, 240),
    fps: int = 30,
    variable_rate: bool = False,
    seed: int = 0,
) -> None:
    """Encode one video of a moving blob with painted frame numbers.

    Args:
        path: where to; the suffix chooses the container (``CODECS[codec].container`` is the usual one).
        motion: one of ``MOTIONS``.
        codec: one of ``CODECS``: ``h264`` (with B-frames), ``hevc`` (open GOPs), ``vp9`` (hidden frames).
        num_frames: 1 to 4096.
        size: width and height, pixels, both even.
        fps: frames a second; the mean where the rate varies.
        variable_rate: give each frame a random duration, half to one and a half of the mean.
        seed: of everything that is random.
    """
    made = CODECS[codec]
    time_base = Fraction(1, 90000) if variable_rate else Fraction(1, fps)
    pts = np.arange(num_frames)
    if variable_rate:
        durations = np.random.default_rng(seed).uniform(0.5, 1.5, num_frames) * 90000 / fps
        pts = np.concatenate([[0], durations.round().astype(int).cumsum()[:-1]])
    images = draw_frames(motion, np.multiply(pts, float(time_base)), size, seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(made.encoder, rate=fps, options=made.options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = stream.time_base = time_base
        stream.codec_context.thread_count = 1
        if codec == "hevc":
            stream.codec_context.codec_tag = "hvc1"
        for number, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image)
            frame.pts, frame.time_base = int(pts[number]), time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_dataset(
    folder: str | Path,
    videos_per_class: int = 8,
    motions: Sequence[str] = MOTIONS,
    sizes: Sequence[tuple[int, int]] = SIZES,
    num_frames: tuple[int, int] = (40, 120),
    seed: int = 0,
) -> list[Path]:
    """Write ``folder/<motion>/<number>_<codec>.<container>`` for each class of motion.

    Codecs, containers and rates take turns; size, length and frame rate are drawn for each video.

    Args:
        folder: made where missing; files of the same name are replaced.
        videos_per_class: how many for each motion.
        motions: the classes.
        sizes: (width, height) to draw from.
        num_frames: shortest and longest.
        seed: another seed gives other videos.

    Returns:
        The paths, in class order.
    """

    def write(kind: int, number: int) -> Path:
        rng = np.random.default_rng([seed, kind, number])
        codec, variable_rate = VARIANTS[(kind + number) % len(VARIANTS)]
        name = f"{number:02d}_{codec}{'_vfr' if variable_rate else ''}.{CODECS[codec].container}"
        path = Path(folder) / motions[kind] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(
            path,
            motions[kind],
            codec,
            num_frames=int(rng.integers(num_frames[0], num_frames[1] + 1)),
            size=sizes[int(rng.integers(len(sizes)))],
            fps=int(rng.choice([24, 25, 30])),
            variable_rate=variable_rate,
            seed=int(rng.integers(1 << 31)),
        )
        return path

    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(write, k, n) for k in range(len(motions)) for n in range(videos_per_class)]
        return [job.result() for job in jobs]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a data set of moving blobs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--videos-per-class", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{len(write_dataset(args.folder, args.videos_per_class, seed=args.seed))} videos in {args.folder}")
