"""A small sample of soak/fuzz_indexing.py: damaged structure gives an index or an error, soon and small."""

from __future__ import annotations

import zlib

import pytest
from sample_videos import RECIPES
from soak.fuzz_indexing import fuzz_file


@pytest.mark.parametrize("name", RECIPES)
def test_damaged_structure_gives_an_index_or_an_error(sample, name):
    outcome = fuzz_file(sample(name), 60, zlib.crc32(name.encode()))
    assert sum(outcome.cases.values()) >= 60
    assert outcome.cases.keys() - {"index"}
