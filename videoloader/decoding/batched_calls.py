"""Calls of many threads carried out together, for what takes many things at once faster than one after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class _Call(Generic[Argument, Result]):
    def __init__(self, arguments: Sequence[Argument]) -> None:
        self.arguments = arguments
        self.results: Sequence[Result] | None = None
        self.error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.results is not None or self.error is not None


class BatchedCalls(Generic[Argument, Result]):
    """Gathers what threads ask for while a batch is under way; one of them carries out the next for all.

    Args:
        function: gives a result for each of some arguments, in order. It is called by one thread at a time.
        most: arguments that a batch may have. Those of one call are never divided.
    """

    def __init__(self, function: Callable[[list[Argument]], Sequence[Result]], most: int) -> None:
        self._function, self._most = function, most
        self._waiting: deque[_Call[Argument, Result]] = deque()
        self._busy = threading.Lock()

    def __call__(self, arguments: Sequence[Argument]) -> Sequence[Result]:
        """A result for each argument, or what the function raised for the batch that they were in."""
        call = _Call[Argument, Result](arguments)
        self._waiting.append(call)
        with self._busy:
            while not call.done:
                self._carry_out()
        if call.error is not None:
            raise call.error
        assert call.results is not None
        return call.results

    def _carry_out(self) -> None:
        batch = [self._waiting.popleft()]
        count = len(batch[0].arguments)
        while self._waiting and (count := count + len(self._waiting[0].arguments)) <= self._most:
            batch.append(self._waiting.popleft())
        try:
            results = self._function([argument for call in batch for argument in call.arguments])
        except Exception as error:
            for call in batch:
                call.error = error
            return
        at = 0
        for call in batch:
            call.results = results[at : at + len(call.arguments)]
            at += len(call.arguments)
