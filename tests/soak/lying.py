"""Runs over files that lie: each case in a process of its own, resumable by number, every fault with its recipe."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
from lies.joined import FAMILIES
from soak.cases import Case, Cases, suffix_of
from soak.doors import compare_file, compare_interleaved
from soak.doors_on_cuda import compare_on_cuda
from soak.limits import Ending, Limits, run_limited

# Otherwise PyTorch's look for a GPU would make CUDA useless in the processes that cases are looked at in.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
# Errors of the library are counted: saying that it cannot is not showing a wrong frame. And so is what nobody can know.
COUNTED = (
    "refused", "stream fails", "read fails", "count, told by errors", "damage untold on auto", "damage untold on nvdec",
)  # fmt: skip
CLIPS = 24


@dataclass
class Findings:
    """What a run over many cases has found.

    Attributes:
        cases: how many were looked at.
        checked: frames compared.
        errors: of the library.
        marked: frames that were said to be damaged.
        wrong: a line with a recipe for each fault.
        kinds: how many cases have faults of each kind.
        counted: likewise of ``COUNTED``, with an example.
    """

    cases: int = 0
    checked: int = 0
    marked: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    counted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, recipe: str, ending: Ending) -> list[str]:
        """Enter a case, and give the lines of its faults."""
        self.cases += 1
        if ending.failure:
            faults = {ending.failure.partition("\n")[0]: ending.failure.rstrip().rpartition("\n")[2][-300:]}
        else:
            self.checked += ending.result["checked"]
            self.marked += ending.result["marked"]
            self.errors.update(ending.result["errors"])
            faults = ending.result["faults"]
        lines = []
        for kind, what in faults.items():
            if kind in COUNTED:
                self.counted[kind].append(f"{recipe}: {what}")
                continue
            self.kinds[kind] += 1
            lines.append(f"{kind}: {recipe}: {what}")
        self.wrong += lines
        return lines


def look_at_case(text: str, folder: Path, clips: int = CLIPS, *, cuda: bool = False) -> dict[str, Any]:
    """One file by all doors; ``text`` is the case. With ``cuda`` by NVDEC, too."""
    _quiet()
    case = Case.parse(text)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / f"case{suffix_of(case.base)}"
        path.write_bytes(Cases(folder).data(case))
        account = compare_file(path, _seed_of(text), clips, inside_gops=case.inside_gops, damaged=case.damages)
        if cuda and not case.inside_gops:
            compare_on_cuda(path, _seed_of(text), clips, account, damaged=case.damages)
        return account.told()


def look_at_group(text: str, folder: Path, clips: int = 3 * CLIPS) -> dict[str, Any]:
    """Several files in turn in one thread; ``text`` is the threads of a read and the cases, with " + " between."""
    _quiet()
    threads, *cases = text.split(" + ")
    with tempfile.TemporaryDirectory() as temporary:
        paths, judged = [], []
        for number, case in enumerate(map(Case.parse, cases)):
            paths.append(Path(temporary) / f"case{number}{suffix_of(case.base)}")
            paths[-1].write_bytes(Cases(folder).data(case))
            judged.append(not case.inside_gops)
        return compare_interleaved(paths, judged, _seed_of(text), clips, int(threads)).told()


def case_of(number: int, cases: Cases) -> str:
    return str(cases.case(number))


def group_of(number: int, cases: Cases) -> str:
    """Two or three files of one family; now and then with lies, or of several families."""
    rng = np.random.default_rng(number)
    group: list[Case] = []
    while len(group) < 2:
        group += cases.group(rng, str(rng.choice(list(FAMILIES))))
    if rng.random() < 0.3:
        group[int(rng.integers(len(group)))] = cases.case(number)
    return " + ".join([str(rng.choice([1, 1, 2])), *map(str, group)])


def _seed_of(text: str) -> int:
    return sum(text.encode())


def _quiet() -> None:
    warnings.simplefilter("ignore")
    av.logging.set_level(None)


def run_cases(
    look: Callable[[str, Path], dict[str, Any]],
    name: Callable[[int, Cases], str],
    arguments: argparse.Namespace,
    program: str,
) -> int:
    """Look at cases until the time is over; 1 if any frame was wrong.

    Args:
        look: at a case, in a process of its own.
        name: of the case of a number.
        arguments: of the command line, see ``add_arguments``.
        program: for recipes.
    """
    arguments.bases.mkdir(parents=True, exist_ok=True)
    cases = Cases(arguments.bases, arguments.only)
    end, begin = time.monotonic() + arguments.seconds, time.monotonic()
    findings, numbers = Findings(), [arguments.seed]

    def texts() -> Iterator[tuple[int, str]]:
        if arguments.case:
            yield from ((-1 - number, case) for number, case in enumerate(arguments.case))
            return
        while time.monotonic() < end and numbers[0] < arguments.seed + arguments.cases:
            yield numbers[0], ""
            numbers[0] += 1

    def work(key: tuple[int, str]) -> tuple[str, dict[str, Any]]:
        # The case is made up in the child, too: muxers are as fit to crash as decoders.
        text = key[1] or name(key[0], cases)
        print(text, flush=True, file=_note(arguments.bases, key[0]).open("w"))
        return text, look(text, arguments.bases)

    told = time.monotonic()
    limits = Limits(megabytes=arguments.megabytes or 2500)
    if getattr(arguments, "cuda", False):  # CUDA takes addresses for all of the GPU's memory; and there are more doors
        limits = Limits(180, megabytes=arguments.megabytes or 50_000)
    for key, ending in run_limited(work, texts(), arguments.at_once, limits):
        note = _note(arguments.bases, key[0])
        text = note.read_text().strip() if note.exists() else f"number {key[0]}"
        note.unlink(missing_ok=True)
        if not ending.failure:
            ending = Ending(ending.result[1])
        for line in findings.take(text, ending):
            print(f"WRONG {line}\n  python {program} --lies --case '{text}'", flush=True)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{findings.cases} cases, {findings.checked} frames, next --seed {numbers[0]}", flush=True)
    seconds = time.monotonic() - begin
    print(f"{findings.cases} cases in {seconds:.0f} s, {findings.checked} frames compared, {findings.marked} marked;")
    print(f"errors of the library {dict(findings.errors)}; go on with --seed {numbers[0]}")
    for kind, examples in findings.counted.items():
        print(f"{kind}: {len(examples)} cases, among them", *examples[:: max(len(examples) // 8, 1)][:8], sep="\n  ")
    print(f"wrong: {dict(findings.kinds)}")
    print("FAILED" if findings.wrong else "passed")
    return 1 if findings.wrong else 0


def _note(folder: Path, number: int) -> Path:
    """Where the child writes down what it works on, for when it does not survive that."""
    return folder / f".case_{number}.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``run_cases`` needs."""
    group = parser.add_argument_group("files that lie")
    group.add_argument("--lies", action="store_true", help="look at files that lie, made here, instead of a folder's")
    group.add_argument("--case", action="append", default=[], help="look at this case only, as it was printed")
    group.add_argument("--cases", type=int, default=1 << 60, help="at most so many")
    group.add_argument("--bases", type=Path, default=Path(tempfile.gettempdir()) / "videoloader_bases")
    group.add_argument("--at-once", type=int, default=2, help="cases looked at side by side")
    group.add_argument("--megabytes", type=int, help="that a case may take: 2500, with CUDA 50000")


def look_at_lies(arguments: argparse.Namespace, program: str) -> int:
    """Files one by one; see ``run_cases``."""
    return run_cases(partial(look_at_case, cuda=arguments.cuda), case_of, arguments, program)


def look_at_groups(arguments: argparse.Namespace, program: str) -> int:
    """Several files in turn; see ``run_cases``."""
    return run_cases(look_at_group, group_of, arguments, program)
