"""Transforms of a batch of clips on the GPU, side by side with other libraries.

    python benchmarks/transforms.py [--rounds 3] [--seconds 2] [--decode-seconds 0.4]

A batch is 32 clips of 16 frames of 224², uint8 on the GPU; it comes out as normalised float32. ``ms`` is the time of a
batch where one follows the other, ``alone`` that of one which is waited for; drawing parameters is part of both. Every
library runs in a process of its own, in turns; see ``decoding.py``. What is not installed is left out with a message.
``--decode-seconds`` is how long the same clips take to decode (32 divided by the clips a second of ``decoding.py``):
what a usual recipe costs is then printed as a share of that.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from decoding import Process, Result, environment_of, judge, measure, table
from decoding_works import Entrant, Times

_INTERPOLATIONS = ("nearest", "bilinear")
ENTRANTS = (
    Entrant("ours", "ours_transforms", "rand_augment"),
    Entrant(
        "torchvision",
        "torchvision",
        "rand_augment",
        tuple({"normalize": where, "interpolation": each} for where in ("clip", "batch") for each in _INTERPOLATIONS),
    ),
    Entrant("Kornia", "kornia", "rand_augment", ({"choice": "clip"},)),
    Entrant("Kornia, one choice", "kornia", "rand_augment", ({"choice": "batch"},)),
    Entrant(
        "DALI",
        "dali",
        "rand_augment",
        tuple(
            {"dynamic": dynamic, "depth": depth, "interpolation": each}
            for dynamic in (False, True)
            for depth in (1, 3)
            for each in _INTERPOLATIONS
        ),
    ),
    Entrant("recipe, RandAugment", "ours_transforms", "recipe", ({"color": "RandAugment"},)),
    Entrant("recipe, ColorJitter", "ours_transforms", "recipe", ({"color": "ColorJitter"},)),
)
BARS = (Times("ours", ("torchvision",), 10), Times("ours", ("Kornia",), 5), Times("ours", ("DALI",), 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", nargs="+", default=[], metavar="LIBRARY", help="modules to leave out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of measuring, for each way in each round")
    parser.add_argument("--warmup", type=float, default=1, help="seconds before that")
    parser.add_argument("--decode-seconds", type=float, help="that the same 32 clips take to decode")
    parser.add_argument(
        "--environment", nargs="+", default=[], metavar="LIBRARY:NAME=VALUE", help="variables for one library's process"
    )
    arguments = parser.parse_args()
    results = {each.label: Result(each, "ms") for each in ENTRANTS if each.module not in arguments.without}
    with ExitStack() as stack:
        processes = {}
        for entrant in ENTRANTS:
            if entrant.label in results:
                environment = environment_of(entrant.module, arguments.environment)
                processes[entrant.label] = Process(entrant, (), None, environment)
                stack.callback(processes[entrant.label].close)
        for label, process in list(processes.items()):
            if "error" in (answer := process.answer(180)):
                results[label].errors.append(answer["error"])
                del processes[label]
        for number in range(arguments.rounds):
            for label, process in processes.items():
                measure(process, results[label], number, arguments)
    for label, result in results.items():
        print(f"{label:<20}{result.text()}")
    print("\n" + table([("RandAugment(2, 9) + Normalize", judge(bar, results)) for bar in BARS]))
    if arguments.decode_seconds:
        for label in ("recipe, RandAugment", "recipe, ColorJitter"):
            if medians := results[label].medians:
                share = medians["ms"] / 1000 / arguments.decode_seconds
                print(f"{label}: {100 * share:.2f} % of the {arguments.decode_seconds:g} s that decoding takes")


if __name__ == "__main__":
    main()
