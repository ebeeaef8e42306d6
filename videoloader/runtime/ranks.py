"""Finds this process's rank and the number of ranks in what launchers and frameworks provide."""

from __future__ import annotations

import os
import sys

import torch.distributed

from videoloader.errors import ConfigurationError, counted, warn_user
from videoloader.errors.checks import check_integer
from videoloader.runtime.launchers import find_launcher, sign_of_others

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
    launcher = find_launcher()
    if launcher is None:
        if company := sign_of_others():
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
