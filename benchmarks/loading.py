"""Loaders at scale: on several GPUs, beside DALI and a torch DataLoader, and feeding a network.

    python benchmarks/loading.py [--only scaling training ...] [--rounds 3] [--seconds 6] [--folder FOLDER]

``scaling``: clips a second of each GPU when 1, 2, 4 decode at the same time. ``whole-videos``: seconds for all frames
of 173 videos. ``training``: steps a second of a network fed by the loader and by one batch that never changes.
``decoding-loader``: a DecodingLoader beside a VideoLoader on the same clips. ``loading_works.py`` says more.

A GPU has a process of its own, which is given its share of the machine's cores, the same however many GPUs take part;
the processes of a team begin to count together. The videos are links to one file, so that it is not the disk that is
measured. What is not installed is left out with a message. ``--device cpu`` tries the program without a GPU.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from decoding import Process, Result, add_arguments, environment_of, judge, machine, table, write_json
from footage import write_files
from loading_works import Team, Work, together, works

_IMPORT_SECONDS = 240


class Members:
    """The processes of a team."""

    def __init__(self, team: Team, files: Sequence[str], arguments: argparse.Namespace, stack: ExitStack) -> None:
        self._kind = arguments.device
        shares = shares_of_cores(arguments.gpus)
        cores = sorted(os.sched_getaffinity(0))
        environment = environment_of(team.entrant.module, arguments.environment)
        self._processes = []
        for rank in range(team.processes):
            process = Process(team.entrant, files, cores if team.all_cores else shares[rank], environment)
            stack.callback(process.close)
            self._processes.append(process)

    def answers(self, seconds: float) -> list[dict[str, Any]]:
        """What each says next, or the first error of any: the others may be waiting for that one."""
        answers: dict[Process, dict[str, Any]] = {}
        end = time.monotonic() + seconds
        while silent := [process for process in self._processes if process not in answers]:
            ready = select.select(silent, [], [], max(end - time.monotonic(), 0))[0]
            if not ready:
                return [{"error": f"no answer in {seconds:.0f} s"}]
            for process in ready:
                answers[process] = process.answer(1)
                if "error" in answers[process]:
                    return [answers[process]]
        return [answers[process] for process in self._processes]

    def measure(self, way: dict[str, Any], seconds: float, warmup: float, work: Work) -> dict[str, Any]:
        """Their figures together, or an error."""
        with tempfile.TemporaryDirectory() as meeting:
            for rank, process in enumerate(self._processes):
                place = {"rank": rank, "ranks": len(self._processes), "kind": self._kind, "meeting": meeting}
                process.ask(seconds, warmup, {"place": place, **way})
            answers = self.answers(work.limit + 10 * (seconds + warmup))
        if "error" in answers[0]:
            return answers[0]
        figures = together([answer["figures"] for answer in answers])
        if figures.get("frames", work.frames) < work.frames:
            return {"error": f"{figures['frames']} of {work.frames} frames came"}
        return {"figures": figures}

    def close(self) -> None:
        for process in self._processes:
            process.close()


def shares_of_cores(gpus: int) -> list[list[int]]:
    """The cores of each GPU's process; where there are fewer cores than GPUs they share them."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(len(cores) // gpus, 1)
    return [[cores[(gpu * each + number) % len(cores)] for number in range(each)] for gpu in range(gpus)]


def run(work: Work, arguments: argparse.Namespace, folder: Path) -> dict[str, Result]:
    """Measure a work: all its teams, in turns."""
    files = write_files(folder, work.footage, work.copies, arguments.film)
    teams = {team.entrant.label: team for team in work.teams if team.entrant.module not in arguments.without}
    results = {label: Result(team.entrant, work.unit) for label, team in teams.items()}
    with ExitStack() as stack:
        members = {label: Members(team, files, arguments, stack) for label, team in teams.items()}
        # Nobody is measured while another one is still being imported.
        for label, each in list(members.items()):
            if "error" in (answer := each.answers(_IMPORT_SECONDS)[0]):
                results[label].errors.append(answer["error"])
                members.pop(label).close()
        for number in range(min(arguments.rounds, work.rounds or arguments.rounds)):
            for label, each in list(members.items()):
                for way, figures in results[label].ways(number):
                    answer = each.measure(way, arguments.seconds, arguments.warmup, work)
                    if "figures" in answer:
                        figures.append(answer["figures"])
                        print(f"        {figures[-1][work.unit]:.4g} {work.unit}: {label}", file=sys.stderr, flush=True)
                        continue
                    results[label].errors.append(f"{way}: {answer['error']}")
                    # The other processes may be waiting for the one that failed.
                    each.close()
                    members[label] = each = Members(teams[label], files, arguments, stack)
                    each.answers(_IMPORT_SECONDS)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORK", default=[""], help="works whose names begin so")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpus", type=int, help="at most; with --device cpu: processes in their place")
    parser.add_argument(
        "--worlds", type=int, nargs="+", default=[1, 2, 4, 8], metavar="GPUS", help="on how many, one after the other"
    )
    add_arguments(parser, seconds=6)
    videos = parser.add_argument_group("whole-videos")
    videos.add_argument("--videos", type=int, default=173)
    videos.add_argument("--sequence", type=int, default=5, help="frames in a clip; 300 of them should divide by it")
    videos.add_argument("--side", type=int, default=0, help="pixels that frames are resized to; 0: not at all")
    videos.add_argument("--ahead", type=int, default=119, help="batches in the making, in one of our ways")
    training = parser.add_argument_group("training")
    training.add_argument("--network", default="r2plus1d_18", help="of torchvision.models.video")
    training.add_argument("--batch", type=int, default=8, help="clips in a step")
    training.add_argument("--clip", type=int, nargs=2, metavar=("LENGTH", "STRIDE"), help="frames, and their distance")
    training.add_argument("--crop", type=int, default=224, help="pixels")
    training.add_argument("--packets", type=float, default=5.8, help="for a frame, that bare NVDEC decodes beside it")
    training.add_argument("--channels-last", action="store_true", help="the memory format of the network")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        arguments.gpus = arguments.gpus or 1
    else:
        arguments.gpus = min(arguments.gpus or 64, len((machine()["gpu"] or "").splitlines()))
        if not arguments.gpus:
            parser.error("nvidia-smi tells of no GPU; --device cpu tries the program without")
    if not (worlds := [world for world in arguments.worlds if 1 <= world <= arguments.gpus]):
        parser.error(f"--worlds: none of these is from 1 to {arguments.gpus}, the GPUs that may take part")
    all_works = works(arguments, worlds)
    chosen = {name: work for name, work in all_works.items() if name.startswith(tuple(arguments.only))}
    if not all(any(name.startswith(each) for name in all_works) for each in arguments.only):
        parser.error(f"works are {', '.join(all_works)}")
    share = len(shares_of_cores(arguments.gpus)[0])
    facts = ", ".join(f"{name} {fact}" for name, fact in machine().items()).replace("\n", "; ")
    print(f"{arguments.gpus} processes with {share} cores each; {facts}")
    rows: list[tuple[str, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, work in chosen.items():
            print(f"{name}: {work.title}", flush=True)
            results = run(work, arguments, folder)
            for label, result in results.items():
                print(f"    {label:<22}{result.text()}", flush=True)
            bars = [judge(bar, results) for bar in work.bars]
            rows += [(name, bar) for bar in bars]
            if arguments.json:
                write_json(arguments.json, arguments, name, work.title, results, bars)
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
