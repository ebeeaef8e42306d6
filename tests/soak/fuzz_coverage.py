"""Let libFuzzer look for bytes that take every branch of every reader, and see that each case ends well.

    pip install atheris
    python tests/soak/fuzz_coverage.py CORPUS [--seconds 7200] [--only mp4 tar] [--workers 2]

Each target of ``fuzz_targets.TARGETS`` is fuzzed in a process of its own, for its share of the time. What takes new
branches is kept in CORPUS, so that the next run goes on from there. A case may take seconds and megabytes
(``fuzz_targets.SECONDS``, ``MEGABYTES``) and ends with an answer or an error of the library. All else is a finding: a
crash, a hang, an exception of another kind, an answer that contradicts another one. Each lies in CORPUS/TARGET/findings
with the bytes that led to it, once for each place in the code; ``--again FILE --only TARGET`` repeats it.

A table tells cases, branches taken (libFuzzer's features, and edges), the number of files kept, how many of them this
run found, the second in which it found the last one (0 for none), and findings. Exit code 1 if there are any.

``tests/test_fuzz_targets.py`` runs a small sample of the targets, without atheris.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

_HANG, _MEGABYTES = 60, 4096
_STATUS = re.compile(r"#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)")


class Outcome(NamedTuple):
    """Of one target: cases run, branches and edges taken, files kept, new ones, when the last came, what was found."""

    cases: int = 0
    features: int = 0
    edges: int = 0
    kept: int = 0
    new: int = 0
    last_new: float = 0
    findings: tuple[str, ...] = ()


def fuzz(name: str, corpus: Path, seconds: float) -> Outcome:
    """Fuzz one target; after a crash or a hang, which end the process, with a new one."""
    place = corpus / name
    findings = place / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    begin, total = time.monotonic(), Outcome()
    while (left := seconds - (time.monotonic() - begin)) > 1:
        command = [
            sys.executable,
            "-P",
            __file__,
            place,
            "--in-this-process",
            "--only",
            name,
            "--seconds",
            f"{left:.0f}",
        ]
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        # libFuzzer's clock starts only when modules are instrumented and the corpus is read.
        clock = threading.Timer(left, process.terminate)
        clock.start()
        cases, told = 0, []
        for line in process.stderr:
            told = [*told[-30:], line]
            if status := _STATUS.search(line):
                cases, edges, features, kept = (int(status[n]) for n in (1, 3, 4, 5))
                total = total._replace(features=max(features, total.features), edges=max(edges, total.edges), kept=kept)
                if status[2] == "NEW":  # beyond what the files of CORPUS take
                    total = total._replace(new=total.new + 1, last_new=time.monotonic() - begin)
        total = total._replace(cases=total.cases + cases)
        ended = process.wait()
        clock.cancel()
        if ended == 0 or time.monotonic() - begin >= seconds:
            break
        (findings / f"process-{time.time_ns()}.txt").write_text("".join(told))
    return total._replace(findings=tuple(sorted(path.name for path in findings.glob("*.txt"))))


def in_this_process(name: str, place: Path, seconds: int) -> None:
    """Run libFuzzer; it ends the process."""
    import atheris

    # The bytecode of what was imported before is not instrumented.
    with atheris.instrument_imports(include=["videoloader"]):
        from soak.fuzz_targets import LONGEST, TARGETS, quiet_decoders, run_case
    target, findings = TARGETS[name], place / "findings"
    kept = place / "corpus"
    kept.mkdir(exist_ok=True)
    with quiet_decoders(), tempfile.TemporaryDirectory() as temporary:
        written, used = Path(temporary, "written"), Path(temporary, "used")
        written.mkdir()
        used.mkdir()
        for seed in target.seeds(written):
            (kept / f"seed-{hashlib.sha1(seed).hexdigest()}").write_bytes(seed)

        def use(data: bytes) -> None:
            try:
                run_case(target, data, used)
            except Exception as error:
                # The same place in the code is the same finding, and the search goes on.
                frames = [
                    frame for frame in traceback.extract_tb(error.__traceback__) if "videoloader" in frame.filename
                ]
                where = [f"{frame.filename}:{frame.lineno}" for frame in frames[-2:]]
                mark = hashlib.sha1(f"{type(error).__name__} {where}".encode()).hexdigest()[:12]
                if not (findings / f"{mark}.txt").exists():
                    (findings / f"{mark}.bin").write_bytes(data)
                    (findings / f"{mark}.txt").write_text("".join(traceback.format_exception(error)))

        options = [
            f"-max_total_time={seconds}", f"-timeout={_HANG}", f"-rss_limit_mb={_MEGABYTES}", f"-max_len={LONGEST}",
            "-print_final_stats=1", f"-artifact_prefix={findings}/process-", "-len_control=0",
        ]  # fmt: skip
        atheris.Setup([sys.argv[0], *options, str(kept)], use)
        atheris.Fuzz()


def again(name: str, file: Path) -> None:
    """Repeat one case, with whatever it raises."""
    from soak.fuzz_targets import TARGETS, quiet_decoders, run_case

    with quiet_decoders(), tempfile.TemporaryDirectory() as folder:
        print(run_case(TARGETS[name], file.read_bytes(), Path(folder)))


def _row(name: str, outcome: Outcome) -> str:
    branches = f"{outcome.features:9} {outcome.edges:7} {outcome.kept:6} {outcome.new:5} {outcome.last_new:8.0f}s"
    return f"{name:10} {outcome.cases:10} {branches} {len(outcome.findings)} {' '.join(outcome.findings[:3])}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--seconds", type=int, default=7200, help="over all targets")
    parser.add_argument("--only", nargs="+", default=(), help="names of targets")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", type=Path, help="a finding to repeat")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.again is not None:
        again(given.only[0], given.again)
        return 0
    if given.in_this_process:
        in_this_process(given.only[0], given.corpus, given.seconds)
        return 0
    from soak.fuzz_targets import TARGETS

    chosen, begin = given.only or list(TARGETS), time.monotonic()
    share = given.seconds * given.workers / len(chosen)
    outcomes = []
    print(f"{'target':10} {'cases':>10} {'features':>9} {'edges':>7} {'kept':>6} {'new':>5} {'last new':>9} findings")
    with ThreadPoolExecutor(given.workers) as pool:
        for name, outcome in zip(chosen, pool.map(lambda name: fuzz(name, given.corpus, share), chosen), strict=True):
            outcomes.append(outcome)
            print(_row(name, outcome), flush=True)  # a run that is broken off has told so much
    cases, found = (sum(each) for each in zip(*((each.cases, len(each.findings)) for each in outcomes), strict=True))
    print(f"{cases} cases over {len(outcomes)} targets in {time.monotonic() - begin:.0f} s; {found} findings")
    return 1 if any(outcome.findings for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
