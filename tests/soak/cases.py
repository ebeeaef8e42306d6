"""Files that lie, by number: which base, which lies, with which seeds; and the same written as one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from corpus_files import CORPUS, GOOD_FILES
from lies import LIES, lies_of
from lies.bases import BASES, write_base
from lies.joined import FAMILIES, WAYS, containers_of, joined

# Larger files of the corpus would take the time that many small ones need.
_LARGEST = 400_000
_HIDES_KEYFRAMES = re.compile("(no|random|some)_key|stss_(first|empty|fewer|shifted)|flagged_(first|random|some)")
_JOINED = re.compile(r"(\w+)\[([\d,]+)\]:(\w+):(\w+)")


@dataclass(frozen=True)
class Case:
    """A file that lies.

    Attributes:
        base: the name of one of BASES, ``corpus/NAME``, or ``FAMILY[MEMBER,MEMBER,…]:WAY:CONTAINER``.
        lies: the name and the seed of each, in the order in which they are told.
    """

    base: str
    lies: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.base, *(f"{name}:{seed}" for name, seed in self.lies)])

    @staticmethod
    def parse(text: str) -> Case:
        """The case that ``str`` has written."""
        base, *lies = text.split()
        return Case(base, tuple((name, int(seed)) for name, seed in (each.split(":") for each in lies)))

    @property
    def damages(self) -> bool:
        """Whether coded pictures come to harm."""
        return any(LIES[name].damages for name, _ in self.lies)

    @property
    def inside_gops(self) -> bool:
        """Whether parameter sets come to stand where only those find them who read that GOP."""
        # Where keyframes are not called so, what they bring along stands inside GOPs.
        hidden = _JOINED.fullmatch(self.base) and any(_HIDES_KEYFRAMES.search(name) for name, _ in self.lies)
        return bool(hidden) or any(LIES[name].inside_gops for name, _ in self.lies) or ":late:" in self.base


class Cases:
    """All cases; ``folder`` keeps the encoded bases."""

    def __init__(self, folder: Path, only: str = "") -> None:
        self._folder = folder
        self._only = only

    def case(self, number: int) -> Case:
        """The case of a number: one base, mostly one lie."""
        rng = np.random.default_rng(number)
        base = self._base(rng)
        data = self.data(Case(base))
        told: list[tuple[str, int]] = []
        for _ in range(int(rng.choice([0, 1, 2, 3], p=[0.06, 0.6, 0.28, 0.06]))):
            for _ in range(20):
                lies = lies_of(data)
                # Those of the container come as often as those that suit any.
                own = [each for each in lies if each.containers]
                lie = (own if own and rng.random() < 0.5 else lies)[int(rng.integers(len(own if own else lies)))]
                seed = int(rng.integers(1000))
                changed = lie.tell(data, seed)
                if changed:
                    data = changed
                    told.append((lie.name, seed))
                    break
        return Case(base, tuple(told))

    def _base(self, rng: np.random.Generator) -> str:
        kind = rng.random()
        if kind < 0.65 or (kind >= 0.88 and not self._real_files):
            names = [name for name in BASES if self._only in name] or list(BASES)
            return names[int(rng.integers(len(names)))]
        if kind >= 0.88:
            return f"corpus/{self._real_files[int(rng.integers(len(self._real_files)))]}"
        while True:
            group = self.group(
                rng, str(rng.choice([name for name in FAMILIES if self._only in name] or list(FAMILIES)))
            )
            if group:
                return group[0].base

    def group(self, rng: np.random.Generator, family: str) -> list[Case]:
        """Files of one family for one thread: some joined, some members alone, all with the same first record."""
        count = len(FAMILIES[family])
        first = int(rng.integers(count))
        container = str(rng.choice(containers_of(family)))
        cases = []
        for _ in range(12):
            way = str(rng.choice(WAYS))
            members = [first, *(int(each) for each in rng.integers(count, size=int(rng.integers(1, 4))))]
            base = f"{family}[{','.join(map(str, members))}]:{way}:{container}"
            if self._data_of_base(base) is not None:
                cases.append(Case(base))
            if len(cases) == 2:
                break
        alone = f"{family}[{first}]:once:{container}"
        if self._data_of_base(alone) is not None:
            cases.append(Case(alone))
        return cases

    @cached_property
    def _real_files(self) -> Sequence[str]:
        files = [name for name in GOOD_FILES if (CORPUS / name).is_file() and self._only in name]
        return [name for name in files if (CORPUS / name).stat().st_size <= _LARGEST]

    def data(self, case: Case) -> bytes:
        """The bytes of a case's file."""
        data = self._data_of_base(case.base)
        assert data is not None, case.base
        for name, seed in case.lies:
            changed = LIES[name].tell(data, seed)
            assert changed is not None, f"{name} has nothing to say of {case.base}"
            data = changed
        return data

    def _data_of_base(self, base: str) -> bytes | None:
        if base.startswith("corpus/"):
            return (CORPUS / base.removeprefix("corpus/")).read_bytes()
        if match := _JOINED.fullmatch(base):
            family, members, way, container = match.groups()
            return joined(self._folder, family, [int(each) for each in members.split(",")], way, container)
        return write_base(self._folder, base).read_bytes()


def suffix_of(base: str) -> str:
    """The ending for a case's file, which some formats are told by."""
    if base.startswith("corpus/"):
        return Path(base).suffix
    return f".{base.rpartition(':')[2]}" if ":" in base else f".{BASES[base].suffix}"
