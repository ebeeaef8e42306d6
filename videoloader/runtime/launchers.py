"""Finds this process's place among those that one launcher started, in the environment alone."""

from __future__ import annotations

import os
from typing import NamedTuple

from videoloader.errors.checks import check


class Launcher(NamedTuple):
    """A launcher's environment variables for the rank, the number of ranks, and the rank on the machine."""

    rank: str
    ranks: str
    local_rank: str


_TORCHRUN = Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK")
_OPEN_MPI = Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
# Hydra, the mpiexec of MPICH, Intel MPI and MVAPICH; and srun --mpi=pmi2.
_HYDRA = Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")
_SLURM = Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
_SLURM_STEP = Launcher("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
# Slurm comes last: the tasks of its step may be MPI daemons or torchrun, whose processes inherit its variables.
_LAUNCHERS = (_TORCHRUN, _OPEN_MPI, _HYDRA)

# PMIx tells processes their rank, but not the number of ranks.
_PMIX_RANK, _PMIX_NAMESPACE, _PMIX_OF_SLURM = "PMIX_RANK", "PMIX_NAMESPACE", "slurm.pmix."
# SLURM_MAX_NORMAL_STEP_ID of slurm.h: larger numbers belong to the shells of sbatch and salloc.
_LAST_STEP = 0xFFFFFFF0


def local_rank() -> int | None:
    """The rank of this process on its machine; None if no launcher started it.

    Raises:
        ConfigurationError: the launcher's variable is not a number.
    """
    launcher = find_launcher()
    text = None if launcher is None else os.environ.get(launcher.local_rank)
    if launcher is None or text is None:
        return None
    check(f"the environment variable {launcher.local_rank}", text, text.isdecimal(), "a number")
    return int(text)


def find_launcher() -> Launcher | None:
    """The launcher whose variables are set; None if this process is alone, or PMIx tells only its rank."""
    for launcher in _LAUNCHERS:
        if launcher.rank in os.environ or launcher.ranks in os.environ:
            return launcher
    if _has_rank_of_pmix():
        return None
    # The rank alone proves nothing: the shell of sbatch or salloc also has SLURM_PROCID=0 and SLURM_NTASKS.
    if _SLURM.ranks in os.environ:
        return _SLURM
    return _SLURM_STEP if _is_in_step() and _SLURM_STEP.ranks in os.environ else None


def is_first() -> bool:
    """Whether this process is the first that its launcher started, or alone."""
    launcher = find_launcher()
    variable = launcher.rank if launcher is not None else _PMIX_RANK if _has_rank_of_pmix() else ""
    return os.environ.get(variable, "0") == "0"


def _has_rank_of_pmix() -> bool:
    """Whether the rank comes from a PMIx launcher other than Slurm, which also sets its own variables."""
    return _PMIX_RANK in os.environ and not os.environ.get(_PMIX_NAMESPACE, "").startswith(_PMIX_OF_SLURM)


def _is_in_step() -> bool:
    """Whether srun started this process."""
    step = os.environ.get("SLURM_STEP_ID") or os.environ.get("SLURM_STEPID", "")
    return step.isdecimal() and int(step) < _LAST_STEP


def sign_of_others() -> str:
    """The sign that an unknown number of other processes run this program, too; "" if there is none."""
    if _has_rank_of_pmix():
        return f"{_PMIX_RANK}={os.environ[_PMIX_RANK]} is set, but no variable tells the number of ranks"
    task, tasks = os.environ.get(_SLURM.rank, ""), os.environ.get(_SLURM_STEP.ranks, "")
    if _is_in_step() or task.strip("0"):
        return f"{_SLURM.rank}={task} is set, but neither {_SLURM.ranks} nor a step with {_SLURM_STEP.ranks}"
    if tasks.isdecimal() and int(tasks) > 1:
        return f"the Slurm job has {tasks} tasks, but srun has not started this process"
    return ""
