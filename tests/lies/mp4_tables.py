"""Lies of an mp4 file's sample tables: what is a keyframe, what others depend on, when it is shown."""

from __future__ import annotations

import struct

import numpy as np

from lies.mp4_boxes import change_table
from lies.registry import Rng, few, lie


def _numbers(payload: bytes | None, columns: int) -> np.ndarray:
    """int64[rows, columns] of a table of 32-bit numbers behind its count."""
    body = b"" if payload is None else payload[8:]
    return np.frombuffer(body[: len(body) // (4 * columns) * 4 * columns], ">u4").astype(np.int64).reshape(-1, columns)


def _table(rows: np.ndarray, version: int = 0) -> bytes:
    return struct.pack(">B3xI", version, len(rows)) + (rows % 2**32).astype(">u4").tobytes()


def _keyframes(data: bytes, choose: object) -> bytes | None:
    def change(payload: bytes | None, samples: int) -> bytes:
        known = _numbers(payload, 1)[:, 0] if payload else np.arange(1, samples + 1)
        chosen = np.unique(np.clip(choose(known, samples), 1, samples))  # type: ignore[operator]
        return _table(chosen[:, None])

    return change_table(data, b"stss", change)


@lie("mp4")
def stss_removed(data: bytes, rng: Rng) -> bytes | None:
    return change_table(data, b"stss", lambda payload, samples: None, remove=True)


@lie("mp4")
def stss_all(data: bytes, rng: Rng) -> bytes | None:
    return _keyframes(data, lambda known, samples: np.arange(1, samples + 1))


@lie("mp4")
def stss_first_only(data: bytes, rng: Rng) -> bytes | None:
    return _keyframes(data, lambda known, samples: known[:1])


@lie("mp4")
def stss_empty(data: bytes, rng: Rng) -> bytes | None:
    return change_table(data, b"stss", lambda payload, samples: struct.pack(">II", 0, 0))


@lie("mp4")
def stss_more(data: bytes, rng: Rng) -> bytes | None:
    return _keyframes(data, lambda known, samples: np.append(known, rng.integers(1, samples + 1, 1 + samples // 8)))


@lie("mp4")
def stss_fewer(data: bytes, rng: Rng) -> bytes | None:
    return _keyframes(data, lambda known, samples: known[rng.random(len(known)) < 0.5])


@lie("mp4")
def stss_shifted(data: bytes, rng: Rng) -> bytes | None:
    return _keyframes(data, lambda known, samples: known + rng.choice([-1, 1, 2, 3]))


@lie("mp4")
def sdtp_all_disposable(data: bytes, rng: Rng) -> bytes | None:
    return change_table(data, b"sdtp", lambda payload, samples: bytes(4) + b"\x18" * samples)


@lie("mp4")
def sdtp_none_disposable(data: bytes, rng: Rng) -> bytes | None:
    return change_table(data, b"sdtp", lambda payload, samples: bytes(4) + b"\x24" * samples)


@lie("mp4")
def sdtp_random(data: bytes, rng: Rng) -> bytes | None:
    def change(payload: bytes | None, samples: int) -> bytes:
        return bytes(4) + rng.choice([0x00, 0x04, 0x08, 0x18, 0x14, 0x28], samples).astype(np.uint8).tobytes()

    return change_table(data, b"sdtp", change)


@lie("mp4")
def sdtp_mostly_true(data: bytes, rng: Rng) -> bytes | None:
    """Every second or third sample, as of a stream with plain B-frames."""
    period = int(rng.choice([2, 3, 4]))

    def change(payload: bytes | None, samples: int) -> bytes:
        return bytes(4) + np.where(np.arange(samples) % period, 0x18, 0x04).astype(np.uint8).tobytes()

    return change_table(data, b"sdtp", change)


def _offsets(data: bytes, change: object, version: int = 0) -> bytes | None:
    """The file with its composition offsets, one a sample, changed."""

    def change_them(payload: bytes | None, samples: int) -> bytes:
        rows = _numbers(payload, 2)
        offsets = np.repeat(rows[:, 1], np.minimum(rows[:, 0], samples))[:samples]
        offsets = np.append(offsets, np.zeros(samples - len(offsets), np.int64))
        if payload and payload[0]:
            offsets = (offsets + 2**31) % 2**32 - 2**31
        changed = np.asarray(change(offsets), np.int64)  # type: ignore[operator]
        return _table(np.stack([np.ones(len(changed), np.int64), changed], 1), version or (payload or b"\0")[0])

    return change_table(data, b"ctts", change_them)


def _a_frame(offsets: np.ndarray) -> int:
    """About the distance of two frames."""
    different = np.unique(offsets[offsets > 0])
    return int(different[0]) if len(different) else 512


@lie("mp4")
def ctts_removed(data: bytes, rng: Rng) -> bytes | None:
    return change_table(data, b"ctts", lambda payload, samples: None, remove=True)


@lie("mp4")
def ctts_zero(data: bytes, rng: Rng) -> bytes | None:
    return _offsets(data, np.zeros_like)


@lie("mp4")
def ctts_one_wrong(data: bytes, rng: Rng) -> bytes | None:
    def change(offsets: np.ndarray) -> np.ndarray:
        wrong = offsets.copy()
        for number in few(rng, len(offsets)):
            wrong[number] += int(rng.choice([1, 2, 3, 5, 20])) * _a_frame(offsets)
        return wrong

    return _offsets(data, change)


@lie("mp4")
def ctts_one_zero(data: bytes, rng: Rng) -> bytes | None:
    def change(offsets: np.ndarray) -> np.ndarray:
        wrong = offsets.copy()
        wrong[few(rng, len(offsets))] = 0
        return wrong

    return _offsets(data, change)


@lie("mp4")
def ctts_swapped(data: bytes, rng: Rng) -> bytes | None:
    def change(offsets: np.ndarray) -> np.ndarray:
        wrong = offsets.copy()
        for number in few(rng, len(offsets) - 1):
            wrong[[number, number + 1]] = wrong[[number + 1, number]]
        return wrong

    return _offsets(data, change)


@lie("mp4")
def ctts_shuffled(data: bytes, rng: Rng) -> bytes | None:
    return _offsets(data, lambda offsets: rng.permutation(offsets))


@lie("mp4")
def ctts_equal_times(data: bytes, rng: Rng) -> bytes | None:
    """A sample is shown when the one before it is."""

    def change(offsets: np.ndarray) -> np.ndarray:
        wrong = offsets.copy()
        for number in few(rng, len(offsets)):
            wrong[number] = max(int(wrong[max(number - 1, 0)]) - _a_frame(offsets), 0)
        return wrong

    return _offsets(data, change)


@lie("mp4")
def ctts_negative(data: bytes, rng: Rng) -> bytes | None:
    def change(offsets: np.ndarray) -> np.ndarray:
        wrong = offsets.copy()
        for number in few(rng, len(offsets)):
            wrong[number] = -int(rng.integers(1, 8)) * _a_frame(offsets)
        return wrong

    return _offsets(data, change, version=1)


@lie("mp4")
def ctts_too_short(data: bytes, rng: Rng) -> bytes | None:
    return _offsets(data, lambda offsets: offsets[: int(rng.integers(len(offsets)))])


def _durations(data: bytes, change: object) -> bytes | None:
    def change_them(payload: bytes | None, samples: int) -> bytes:
        rows = _numbers(payload, 2)
        durations = np.repeat(rows[:, 1], np.minimum(rows[:, 0], samples))[:samples]
        changed = np.asarray(change(durations), np.int64)  # type: ignore[operator]
        return _table(np.stack([np.ones(len(changed), np.int64), changed], 1))

    return change_table(data, b"stts", change_them)


@lie("mp4")
def stts_zero(data: bytes, rng: Rng) -> bytes | None:
    def change(durations: np.ndarray) -> np.ndarray:
        wrong = durations.copy()
        wrong[few(rng, len(wrong))] = 0
        return wrong

    return _durations(data, change)


@lie("mp4")
def stts_negative(data: bytes, rng: Rng) -> bytes | None:
    def change(durations: np.ndarray) -> np.ndarray:
        wrong = durations.copy()
        for number in few(rng, len(wrong)):
            wrong[number] = -int(rng.choice([1, 2, 3])) * max(int(durations[number]), 1)
        return wrong

    return _durations(data, change)


@lie("mp4")
def stts_jumps(data: bytes, rng: Rng) -> bytes | None:
    def change(durations: np.ndarray) -> np.ndarray:
        wrong = durations.copy()
        for number in few(rng, len(wrong)):
            wrong[number] *= int(rng.choice([2, 10, 1000]))
        return wrong

    return _durations(data, change)


@lie("mp4")
def stts_too_short(data: bytes, rng: Rng) -> bytes | None:
    return _durations(data, lambda durations: durations[: int(rng.integers(1, len(durations)))])
