"""Finds this process's rank and the number of ranks in what launchers and frameworks provide."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import torch.distributed

from videoloader.errors import ConfigurationError, counted, warn_user
from videoloader.errors.checks import check, check_integer


class _Launcher(NamedTuple):
    """A launcher's environment variables for the rank, the number of ranks, and the rank on the machine."""

    rank: str
    ranks: str
    local_rank: str


_TORCHRUN = _Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK")
_OPEN_MPI = _Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
# Hydra, the mpiexec of MPICH, Intel MPI and MVAPICH; and srun --mpi=pmi2.
_HYDRA = _Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")
_SLURM = _Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
_SLURM_STEP = _Launcher("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
# Slurm comes last: the tasks of its step may be MPI daemons or torchrun, whose processes inherit its variables.
_LAUNCHERS = (_TORCHRUN, _OPEN_MPI, _HYDRA)

# PMIx tells processes their rank, but not the number of ranks.
_PMIX_RANK, _PMIX_NAMESPACE, _PMIX_OF_SLURM = "PMIX_RANK", "PMIX_NAMESPACE", "slurm.pmix."
# SLURM_MAX_NORMAL_STEP_ID of slurm.h: larger numbers belong to the shells of sbatch and salloc.
_LAST_STEP = 0xFFFFFFF0
_INSTEAD = "give shard_id and num_shards, or set RANK and WORLD_SIZE"


def shard_of_environment() -> tuple[int, int]:
    """(shard_id, num_shards): this process's rank and the number of ranks.

    They come from the first available source: an initialised ``torch.distributed``, an initialised ``jax.distributed``
    (only if the program has imported JAX), or the environment of torchrun (``RANK``, ``WORLD_SIZE``), of Open MPI's
    mpirun (``OMPI_COMM_WORLD_RANK``, ``OMPI_COMM_WORLD_SIZE``), of MPICH's and Intel MPI's mpiexec (``PMI_RANK``,
    ``PMI_SIZE``), of Slurm's srun (``SLURM_PROCID``, and ``SLURM_STEP_NUM_TASKS`` or, in a step, ``SLURM_NTASKS``).
    Without any of them the result is (0, 1).

    A warning is given where other processes probably run, too: in a task without the number of tasks, with a PMIx rank
    (``PMIX_RANK``), which comes without the number of ranks, and in the shell of a Slurm job of several tasks.

    Raises:
        ConfigurationError: only one of two variables is set, or they are not integers with 0 <= rank < ranks.

    Examples:
        Under ``torchrun --nproc-per-node 4`` the second process gets (1, 4).
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    jax = sys.modules.get("jax")
    # Asking JAX for its processes before it is initialised would set up its devices and take most of their memory, even
    # in programs that only import it. Versions before 0.5 cannot say whether it is initialised.
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if jax is not None and is_initialized is not None and is_initialized():
        return int(jax.process_index()), int(jax.process_count())
    launcher = _launcher()
    if launcher is None:
        if company := _sign_of_others():
            warn_user(f"{company}: this process assumes that it is alone, so every process reads all clips; {_INSTEAD}")
        return 0, 1
    rank, ranks = os.environ.get(launcher.rank), os.environ.get(launcher.ranks)
    try:
        shard_id, num_shards = int(rank or ""), int(ranks or "")
    except ValueError:
        shard_id, num_shards = -1, 0
    if not 0 <= shard_id < num_shards:
        raise ConfigurationError(
            f"the environment must set both or none of {launcher.rank} and {launcher.ranks}, with "
            f"0 <= {launcher.rank} < {launcher.ranks}; got {launcher.rank}={rank!r}, {launcher.ranks}={ranks!r}"
        )
    return shard_id, num_shards


def shard_of(shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    """The given shard, or that of the environment if none is given.

    Raises:
        ConfigurationError: only one of the two arguments is given; see also ``shard_of_environment``.
    """
    if shard_id is None and num_shards is None:
        return shard_of_environment()
    if shard_id is None or num_shards is None:
        raise ConfigurationError("give both of shard_id and num_shards, or none")
    check_integer("shard_id", shard_id, 0)
    check_integer("num_shards", num_shards)
    return shard_id, num_shards


def tell_of_later_ranks(num_shards: int) -> None:
    """Warn if PyTorch's process group has more ranks than a loader was made for."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        ranks = torch.distributed.get_world_size()
        if ranks > num_shards:
            warn_user(
                f"the loader was made for {counted(num_shards, 'rank')}, but torch.distributed has {ranks} by now, so "
                "they get the same clips: make it after init_process_group, or give shard_id and num_shards"
            )


def local_rank() -> int | None:
    """The rank of this process on its machine; None if no launcher started it.

    Raises:
        ConfigurationError: the launcher's variable is not a number.
    """
    launcher = _launcher()
    text = None if launcher is None else os.environ.get(launcher.local_rank)
    if launcher is None or text is None:
        return None
    check(f"the environment variable {launcher.local_rank}", text, text.isdecimal(), "a number")
    return int(text)


def _launcher() -> _Launcher | None:
    for launcher in _LAUNCHERS:
        if launcher.rank in os.environ or launcher.ranks in os.environ:
            return launcher
    if _has_rank_of_pmix():
        return None
    # The rank alone proves nothing: the shell of sbatch or salloc also has SLURM_PROCID=0 and SLURM_NTASKS.
    if _SLURM.ranks in os.environ:
        return _SLURM
    return _SLURM_STEP if _is_in_step() and _SLURM_STEP.ranks in os.environ else None


def _has_rank_of_pmix() -> bool:
    """Whether the rank comes from a PMIx launcher other than Slurm, which also sets its own variables."""
    return _PMIX_RANK in os.environ and not os.environ.get(_PMIX_NAMESPACE, "").startswith(_PMIX_OF_SLURM)


def _is_in_step() -> bool:
    """Whether srun started this process."""
    step = os.environ.get("SLURM_STEP_ID") or os.environ.get("SLURM_STEPID", "")
    return step.isdecimal() and int(step) < _LAST_STEP


def _sign_of_others() -> str:
    """The sign that an unknown number of other processes run this program, too; "" if there is none."""
    if _has_rank_of_pmix():
        return f"{_PMIX_RANK}={os.environ[_PMIX_RANK]} is set, but no variable tells the number of ranks"
    task, tasks = os.environ.get(_SLURM.rank, ""), os.environ.get(_SLURM_STEP.ranks, "")
    if _is_in_step() or task.strip("0"):
        return f"{_SLURM.rank}={task} is set, but neither {_SLURM.ranks} nor a step with {_SLURM_STEP.ranks}"
    if tasks.isdecimal() and int(tasks) > 1:
        return f"the Slurm job has {tasks} tasks, but srun has not started this process"
    return ""
