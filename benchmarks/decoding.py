"""Decoding on one machine, side by side with other libraries and with NVDEC's ceiling.

    python benchmarks/decoding.py [--only clips-1080p latency ...] [--rounds 3] [--seconds 3] [--film some_video.mp4]

Writes H.264 and HEVC files of 300 frames (GOP 250, three B-frames) and one of 3,500, or takes them from --folder, where
they stay. Every library runs in a process of its own, since two of them cannot share one; all rounds of a work take
turns, so that a machine that slows down slows all. A library may do a work in several ways (numbers of threads,
operators): each is tried in the first round, those that come near the best in all, and the best median counts.
What cannot be measured is listed with its reason. ``decoding_works.py`` says what is measured.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import select
import shlex
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from decoding_works import CORES, LESS_IS_BETTER, WORKS, AtMost, Entrant, Times, Work
from footage import write_files

import videoloader as vl

# A way that is this much worse than the best one in the first round is not tried again.
_NEAR = 0.9
# Packages whose versions are written beside the results, where they are installed.
_PACKAGES = ("torch", "av", "torchcodec", "decord2", "pynvvideocodec", "nvidia-dali-cuda120", "nvidia-dali-cuda130")
# Processes that wait for a core, before anything is measured.
_LOAD = os.getloadavg()[0]


class Process:
    """A library in a process of its own, which measures when it is told to."""

    def __init__(
        self, entrant: Entrant, files: Sequence[str], cores: Sequence[int] | None, environment: Mapping[str, str]
    ) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        task = json.dumps([entrant.module, entrant.function, list(files), cores])
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **environment},
        )

    def answer(self, seconds: float) -> dict[str, Any]:
        """What it says next: figures, or an error."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self.close()
            return {"error": f"no answer in {seconds:.0f} s"}
        line = self._process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines() or [""]
        return {"error": f"the process ended with {code}: {lines[-1][:300]}"}

    def fileno(self) -> int:
        """Of what can be read when it answers."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def ask(self, seconds: float, warmup: float, arguments: Mapping[str, Any]) -> None:
        """Have it measure."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer will be that it has ended
            self._process.stdin.write(json.dumps([seconds, warmup, arguments]) + "\n")
            self._process.stdin.flush()

    def measure(self, seconds: float, warmup: float, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.ask(seconds, warmup, arguments)
        return self.answer(60 + 10 * (seconds + warmup))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def serve(task: str) -> None:
    """Import a library, say so, then measure for each line that comes in."""
    module, function, files, cores = json.loads(task)
    if cores:
        os.sched_setaffinity(0, cores)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(what: Mapping[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    def error() -> dict[str, str]:
        traceback.print_exc()
        return {"error": " ".join(traceback.format_exception_only(*sys.exc_info()[:2])).strip()[:300]}

    try:
        measure = getattr(importlib.import_module(f"libraries.{module}"), function)
    except Exception:
        answer(error())
        return
    answer({})
    for line in sys.stdin:
        seconds, warmup, arguments = json.loads(line)
        try:
            answer({"figures": measure(files, seconds, warmup, **arguments)})
        except Exception:
            answer(error())
        # So that threads, sessions and what PyTorch keeps are gone when others are measured.
        gc.collect()
        if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
            torch.cuda.empty_cache()


class Result:
    """What an entrant's ways of doing a work have given."""

    def __init__(self, entrant: Entrant, unit: str) -> None:
        self.unit, self.less_is_better = unit, unit in LESS_IS_BETTER
        self.rounds: list[tuple[dict[str, Any], list[dict[str, float]]]] = [(each, []) for each in entrant.variants]
        self.errors: list[str] = []

    def ways(self, round_number: int) -> list[tuple[dict[str, Any], list[dict[str, float]]]]:
        """The ways that are worth another round."""
        if round_number == 0:
            return self.rounds
        if not (best := self.best):
            return []
        return [each for each in self.rounds if each is best or (each[1] and self._is_near(each[1], best[1]))]

    def _is_near(self, figures: Sequence[Mapping[str, float]], best: Sequence[Mapping[str, float]]) -> bool:
        value, goal = self._median(figures), self._median(best)
        return value * _NEAR <= goal if self.less_is_better else value >= goal * _NEAR

    def _median(self, figures: Sequence[Mapping[str, float]]) -> float:
        return statistics.median(each[self.unit] for each in figures)

    @property
    def best(self) -> tuple[dict[str, Any], list[dict[str, float]]] | None:
        """The way with the best median of those measured most often."""
        most = max(len(figures) for _, figures in self.rounds)
        measured = [each for each in self.rounds if each[1] and len(each[1]) == most]
        choose = min if self.less_is_better else max
        return choose(measured, key=lambda each: self._median(each[1]), default=None)

    @property
    def medians(self) -> dict[str, float]:
        """Each figure of the best way."""
        figures = self.best[1] if self.best else []
        return {name: statistics.median(each[name] for each in figures) for name in (figures[0] if figures else ())}

    def text(self) -> str:
        if not self.best:
            return f"not to be had: {self.errors[0] if self.errors else 'no figures'}"
        arguments, figures = self.best
        each = ", ".join(f"{one[self.unit]:.4g}" for one in figures)
        way = ", ".join(f"{name}={value}" for name, value in arguments.items())
        more = ", ".join(f"{name} {value:.4g}" for name, value in self.medians.items() if name != self.unit)
        failed = f"; {len(self.errors)} failed: {self.errors[0]}" if self.errors else ""
        return f"{self.medians[self.unit]:>9.4g} {self.unit} ({each}) {way}{'; ' if way and more else ''}{more}{failed}"


def run(work: Work, arguments: argparse.Namespace, folder: Path) -> dict[str, Result]:
    """Measure a work: all its entrants, in turns."""
    files = write_files(folder, work.footage, work.copies, arguments.film, arguments.real)
    entrants = [each for each in work.entrants if each.module not in arguments.without]
    results = {entrant.label: Result(entrant, work.unit) for entrant in entrants}
    rounds = range(arguments.rounds)
    cores = sorted(os.sched_getaffinity(0))[: work.cores]
    for some in [[number] for number in rounds] if work.new_processes else [rounds]:
        with ExitStack() as stack:
            processes = {}
            for entrant in entrants:
                process = Process(entrant, files, cores, environment_of(entrant.module, arguments.environment))
                stack.callback(process.close)
                processes[entrant.label] = process
            # Nobody is measured while another one is still being imported.
            for label, process in list(processes.items()):
                if "error" in (answer := process.answer(180)):
                    results[label].errors.append(answer["error"])
                    del processes[label]
            for round_number in some:
                for label, process in processes.items():
                    measure(process, results[label], round_number, arguments)
    return results


def measure(process: Process, result: Result, round_number: int, arguments: argparse.Namespace) -> None:
    """One round of an entrant."""
    for way, figures in result.ways(round_number):
        answer = process.measure(arguments.seconds, arguments.warmup, way)
        if "error" in answer:
            result.errors.append(f"{way}: {answer['error']}")
        else:
            figures.append(answer["figures"])


def environment_of(module: str, settings: Sequence[str]) -> dict[str, str]:
    """The settings LIBRARY:NAME=VALUE that are for one library."""
    mine = [setting.partition(":")[2] for setting in settings if setting.partition(":")[0] == module]
    return dict(setting.split("=", 1) for setting in mine)


def judge(bar: Times | AtMost, results: Mapping[str, Result]) -> dict[str, Any]:
    """A bar, what came out, and whether it is met; None where a figure is missing."""
    mine = results[bar.entrant].medians if bar.entrant in results else {}
    if isinstance(bar, AtMost):
        value = mine.get(bar.figure)
        # Counts of packets are exact; a thousandth is for the arithmetic.
        met = None if value is None else value <= bar.most * 1.001
        return {"what": f"{bar.entrant}: {bar.figure}", "value": value, "bar": f"≤ {bar.most:g}", "met": met}
    others = [results[label] for label in bar.others if label in results and results[label].medians]
    value = None
    if mine and others:
        result = results[bar.entrant]
        theirs = [other.medians[result.unit] for other in others]
        own = mine[result.unit]
        value = min(theirs) / own if result.less_is_better else own / max(theirs)
    names = " or ".join(bar.others)
    met = None if value is None else value >= bar.least
    return {"what": f"{bar.entrant} : {names}", "value": value, "bar": f"≥ {bar.least:g}", "met": met}


def machine() -> dict[str, Any]:
    """Where it was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    cpu = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    facts: dict[str, Any] = {"cpu": cpu, "cores": CORES, "python": platform.python_version()}
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        facts["gpu"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        facts["gpu"] = None
    return facts


def run_facts() -> dict[str, Any]:
    """When and how this program was run, and with which versions."""
    versions = {"videoloader": vl.__version__}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    return {
        "date": datetime.date.today().isoformat(),
        "command": command,
        "load": round(_LOAD, 1),
        "versions": versions,
    }


def write_json(
    path: Path, arguments: argparse.Namespace, name: str, title: str, results: Mapping[str, Result], bars: list
) -> None:
    """Add a work to a file of results, or replace it there."""
    told = json.loads(path.read_text()) if path.exists() else {"machine": machine(), "works": {}}
    told["works"][name] = {
        "title": title,
        "run": run_facts(),
        "unit": next(iter(results.values())).unit,
        "settings": {key: getattr(arguments, key) for key in ("rounds", "seconds", "warmup")},
        "entrants": {
            label: {
                "medians": result.medians,
                "best": result.best[0] if result.best else None,
                "ways": [{"arguments": way, "rounds": figures} for way, figures in result.rounds],
                "errors": result.errors,
            }
            for label, result in results.items()
        },
        "bars": bars,
    }
    path.write_text(json.dumps(told, indent=1))


def table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The bars of all works, in Markdown."""
    lines = ["| work | what | value | bar | |", "|---|---|---|---|---|"]
    verdicts = {True: "met", False: "missed", None: "not measured"}
    for name, bar in rows:
        value = "" if bar["value"] is None else f"{bar['value']:.3g}"
        lines.append(f"| {name} | {bar['what']} | {value} | {bar['bar']} | {verdicts[bar['met']]} |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser, seconds: float) -> None:
    """What all comparisons are told.

    Args:
        parser: that gets them.
        seconds: to count for, unless told.
    """
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="LIBRARY", help="modules of libraries/ to leave out"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=seconds, help="of counting, for each way in each round")
    parser.add_argument("--warmup", type=float, default=4, help="seconds before that")
    parser.add_argument("--film", help="a video of 300 frames or more to re-encode instead of made-up pictures")
    parser.add_argument(
        "--real", metavar="FOLDER", help="videos for the works of real ones, which are left out without it"
    )
    parser.add_argument("--folder", type=Path, help="where the files are, or are written and stay")
    parser.add_argument("--json", type=Path, help="a file that the results are added to")
    parser.add_argument(
        "--environment", nargs="+", default=[], metavar="LIBRARY:NAME=VALUE", help="variables for one library's process"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS), metavar="WORK", help=", ".join(WORKS))
    add_arguments(parser, seconds=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    rows: list[tuple[str, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            work = WORKS[name]
            settings = argparse.Namespace(**vars(arguments))
            settings.seconds = max(arguments.seconds, work.least_seconds)
            print(f"{name}: {work.title}", flush=True)
            results = run(work, settings, folder)
            for label, result in results.items():
                print(f"    {label:<16}{result.text()}", flush=True)
            bars = [judge(bar, results) for bar in work.bars]
            rows += [(name, bar) for bar in bars]
            if arguments.json:
                write_json(arguments.json, settings, name, work.title, results, bars)
    print("\n" + table(rows))


if __name__ == "__main__":
    main()
