"""Common parts of all loaders: one loop at a time, an end, and no copies."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from videoloader.batching.batch_maker import BatchMaker
from videoloader.errors import ConfigurationError, no_copy
from videoloader.reading.cancellation import CancelToken

LoaderT = TypeVar("LoaderT", bound="OneLoop")

_CLOSED = "the loader is closed: make another one"


class OneLoop:
    """The part of a loader that begins and ends its loops.

    Args:
        maker: maker of the loader's batches.
    """

    def __init__(self, maker: BatchMaker) -> None:
        self._maker, self._token, self._closed = maker, CancelToken(), False

    def __enter__(self: LoaderT) -> LoaderT:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise no_copy(self)

    def close(self) -> None:
        """End a loop under way, and the loader's threads and processes.

        To continue that loop, or to begin another one, is a ConfigurationError. A loader that is no longer used closes
        by itself.

        Examples:
            >>> with VideoLoader(data, RandomWindow(16), batch_size=8) as loader:
            ...     batch = next(iter(loader))
        """
        self._closed = True
        self._token.cancel(_CLOSED)
        self._maker.close()

    def _begin_loop(self) -> CancelToken:
        """End the loop before, and give the new one's token.

        Raises:
            ConfigurationError: the loader is closed.
        """
        self._token.cancel()
        token = self._token = CancelToken()
        if self._closed:  # asked once ``close`` in another thread finds the token
            raise ConfigurationError(_CLOSED)
        return token
