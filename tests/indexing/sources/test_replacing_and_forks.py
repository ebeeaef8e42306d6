"""Files that are being written when the process is forked belong to the parent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from videoloader.errors import ConfigurationError
from videoloader.indexing.sources.regular_file import replacing


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_forked_process_leaves_the_file_of_its_parent_alone(tmp_path: Path, goes_on: bool) -> None:
    path, main = tmp_path / "a.csv", os.getpid()
    try:
        with replacing(str(path)) as file:
            file.write(b"in the buffer, ")
            if child := os.fork():
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                file.write(b"and behind")
            elif goes_on:
                file.write(b"of the child " * 10000)
            else:
                raise SystemExit
    except (ConfigurationError, SystemExit) as error:
        is_right = isinstance(error, ConfigurationError) == goes_on and os.getpid() != main
        os._exit(7 if is_right else 1)
    except BaseException:
        if os.getpid() != main:
            os._exit(1)
        raise
    assert path.read_bytes() == b"in the buffer, and behind"
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
