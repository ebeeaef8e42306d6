"""The rank of a process under every launcher."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from videoloader.errors import ConfigurationError
from videoloader.runtime.device import resolve_device
from videoloader.runtime.launchers import is_first, local_rank
from videoloader.runtime.ranks import shard_of_environment

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
HYDRA = {"PMI_RANK": "6", "PMI_SIZE": "7", "MPI_LOCALRANKID": "3"}
SRUN = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6", "SLURM_NTASKS": "6", "SLURM_LOCALID": "2"}
# What sbatch and salloc set in the shell of a job of eight tasks, before any srun.
SLURM_SHELL = {"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}
# A task of a step that is not told the number of its tasks by the usual variable.
SLURM_STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
PMIX = {"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-node-7@1"}
PMIX_OF_SLURM = {"PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.17.0"}
ALL = (TORCHRUN, OPEN_MPI, HYDRA, SRUN, SLURM_SHELL, SLURM_STEP, PMIX, {"SLURM_STEPID": ""})


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in ALL:
        for name in environment:
            monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("environment", "shard", "local"),
    [
        ({}, (0, 1), None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1), None),
        (TORCHRUN, (3, 8), 1),
        (OPEN_MPI, (2, 4), 0),
        (SRUN, (5, 6), 2),
        (HYDRA, (6, 7), 3),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2), None),
        (SLURM_STEP, (0, 4), 0),
        (SLURM_STEP | {"SLURM_PROCID": "3", "SLURM_LOCALID": "1"}, (3, 4), 1),
        (SLURM_SHELL | {"SLURM_STEPID": "2", "SLURM_PROCID": "7"}, (7, 8), 0),
        (SLURM_SHELL | {"SLURM_NTASKS": "1"}, (0, 1), None),
        (SRUN | PMIX_OF_SLURM, (5, 6), 2),
        # torchrun and mpirun inside a step: its task is their daemon.
        (SRUN | TORCHRUN, (3, 8), 1),
        (SRUN | OPEN_MPI, (2, 4), 0),
        (SLURM_SHELL | OPEN_MPI, (2, 4), 0),
        (SRUN | HYDRA, (6, 7), 3),
        (SRUN | PMIX | OPEN_MPI, (2, 4), 0),
    ],
)
@pytest.mark.filterwarnings("error")
def test_launchers(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], shard: tuple[int, int], local: int | None
) -> None:
    launched(monkeypatch, environment)
    assert shard_of_environment() == shard
    assert local_rank() == local
    assert is_first() == (shard[0] == 0)


@pytest.mark.parametrize("environment", [PMIX, SRUN | PMIX], ids=["PMIx", "PMIx in a step"])
def test_a_rank_without_their_number_is_not_the_first(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    launched(monkeypatch, environment)
    assert not is_first()
    monkeypatch.setenv("PMIX_RANK", "0")
    assert is_first()


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (SLURM_SHELL, "the Slurm job has 8 tasks, but srun has not started this process"),
        (SLURM_SHELL | {"SLURM_STEP_ID": "4294967290"}, "the Slurm job has 8 tasks"),  # the shell of salloc
        ({"SLURM_PROCID": "3"}, "SLURM_PROCID=3 is set, but neither SLURM_STEP_NUM_TASKS nor"),
        (SLURM_SHELL | {"SLURM_PROCID": "3"}, "SLURM_PROCID=3 is set, but neither"),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "1"}, "SLURM_PROCID=0 is set, but neither"),
        (PMIX, "PMIX_RANK=1 is set, but no variable tells the number of ranks"),
        (SRUN | PMIX, "PMIX_RANK=1 is set"),  # Slurm's task is the daemon that started the rank
    ],
)
def test_a_process_that_looks_alone_and_probably_is_not_is_told(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], told: str
) -> None:
    launched(monkeypatch, environment)
    with pytest.warns(UserWarning, match=rf"^{re.escape(told)}.* reads all clips; give shard_id and num_shards"):
        assert shard_of_environment() == (0, 1)
    assert local_rank() is None


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1"},
        {"WORLD_SIZE": "2"},
        {"RANK": "", "WORLD_SIZE": ""},
        {"RANK": "one", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2.0"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "0"},
    ],
)
@pytest.mark.parametrize(
    ("rank", "ranks"),
    [
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ],
)
def test_half_set_or_malformed_environments_are_errors_that_show_both(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], rank: str, ranks: str
) -> None:
    name = {"RANK": rank, "WORLD_SIZE": ranks}
    given = {name[each]: value for each, value in environment.items()}
    launched(monkeypatch, given)
    if set(given) == {"SLURM_PROCID"}:
        with pytest.warns(UserWarning, match="SLURM_PROCID=1 is set, but neither"):
            assert shard_of_environment() == (0, 1)
        return
    with pytest.raises(ConfigurationError) as error:
        shard_of_environment()
    assert str(error.value).endswith(f"got {rank}={given.get(rank)!r}, {ranks}={given.get(ranks)!r}")


def test_a_local_rank_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, TORCHRUN | {"LOCAL_RANK": "one"})
    with pytest.raises(ConfigurationError, match="LOCAL_RANK must be a number, got 'one'"):
        local_rank()


def test_an_initialised_process_group_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, TORCHRUN)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert shard_of_environment() == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    assert shard_of_environment() == (3, 8)


@pytest.mark.parametrize(("initialised", "shard"), [(True, (1, 2)), (False, (0, 1))])
def test_jax_is_asked_where_it_is_initialised(
    monkeypatch: pytest.MonkeyPatch, initialised: bool, shard: tuple[int, int]
) -> None:
    jax = ModuleType("jax")
    jax.distributed = SimpleNamespace(is_initialized=lambda: initialised)
    jax.process_index, jax.process_count = lambda: 1, lambda: 2
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert shard_of_environment() == shard


@pytest.fixture
def eight_gpus(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine whose GPUs are only looked at."""
    machine = SimpleNamespace(current=0, count=8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: machine.current)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: machine.count)
    monkeypatch.setattr("videoloader.runtime.device._is_there", lambda package: True)
    return machine


def test_each_process_of_a_machine_gets_a_gpu_of_its_own(
    eight_gpus: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve_device("cuda") == torch.device("cuda", 0)
    launched(monkeypatch, TORCHRUN | {"LOCAL_RANK": "3"})
    assert resolve_device("cuda") == resolve_device("auto") == torch.device("cuda", 3)
    assert resolve_device("cuda:0") == torch.device("cuda", 0)
    eight_gpus.current = 5  # by torch.cuda.set_device
    assert resolve_device("cuda") == torch.device("cuda", 5)


def test_a_process_forked_from_one_that_has_used_cuda_uses_the_cpu(
    eight_gpus: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")
    for name in ("cuda", "cuda:3"):
        with pytest.raises(ConfigurationError, match="cannot be used in this process"):
            resolve_device(name)


def test_a_launcher_that_shows_each_process_one_gpu_leaves_no_choice(
    eight_gpus: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(monkeypatch, SRUN)
    eight_gpus.count = 1
    assert resolve_device("cuda") == torch.device("cuda", 0)


@pytest.mark.parametrize("stand_in", [ModuleType("cupy"), None])
def test_a_stand_in_for_a_package_of_the_gpu_is_not_that_package(
    monkeypatch: pytest.MonkeyPatch, stand_in: ModuleType | None
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", stand_in)  # type: ignore[arg-type]
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")
