"""Make the documentation's page of results, ``docs/benchmarks.md``, from the files that ``--json`` writes.

python benchmarks/decoding.py --only cpu-360p-2 --json benchmarks/results/two-cores.json
python benchmarks/page.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE.parent / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmark results

`benchmarks/page.py` makes this page from the JSON files in `benchmarks/results/`, one for each machine. The programs in
`benchmarks/` measure all libraries in turns in the same run, and give each library its best settings.
"videoloader, processes" is a `ClipDataset` in PyTorch's `DataLoader`. `benchmarks/README.md` in the repository has the
results on GPUs.
"""

BUSY = """\
!!! warning "Measured on a busy machine"
    Other programs used the same cores during this run. An idle machine is many times as fast, and the rounds vary
    widely. Use these figures only to compare the libraries with each other.
"""


def page(results: Path = RESULTS) -> str:
    """The page, with a section for each file and a table for each kind of work in it."""
    parts = [INTRODUCTION]
    for file in sorted(results.glob("*.json")):
        told = json.loads(file.read_text())
        parts.append(f"## {_machine(told['machine'])}\n")
        parts += [_work(work, told["machine"]["cores"]) for work in told["works"].values()]
    return "\n".join(parts)


def _machine(facts: Mapping[str, Any]) -> str:
    return f"{facts['gpu'] or facts['cpu']}, {facts['cores']} cores, Python {facts['python']}"


def _work(work: Mapping[str, Any], cores: int) -> str:
    run, settings, unit = work["run"], work["settings"], work["unit"]
    title = work["title"][0].upper() + work["title"][1:]
    lines = [f"### {title}\n", f"| library | median, {unit} | rounds | settings |", "|---|---|---|---|"]
    for label, entrant in work["entrants"].items():
        library = label.replace("ours", "videoloader")
        if entrant["best"] is None:
            lines.append(f"| {library} | not measured | | {'; '.join(entrant['errors'][:1])} |")
            continue
        rounds = next(way["rounds"] for way in entrant["ways"] if way["arguments"] == entrant["best"])
        figures = ", ".join(f"{each[unit]:.3g}" for each in rounds)
        way = ", ".join(f"`{name}={value}`" for name, value in entrant["best"].items())
        lines.append(f"| {library} | **{entrant['medians'][unit]:.3g}** | {figures} | {way} |")
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    lines.append(
        f"\nMeasured on {run['date']} with {versions}; {settings['rounds']} rounds of {settings['seconds']:g} s after "
        f"{settings['warmup']:g} s of warm-up. The load average before the run was {run['load']:g}.\n"
    )
    if run["load"] > cores:
        lines.append(f"{BUSY}\n")
    lines.append(f"```sh\n{run['command']}\n```\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
