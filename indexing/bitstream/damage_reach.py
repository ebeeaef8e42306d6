"""Find the packets that damage reaches: those that refer to it, directly or not."""

from __future__ import annotations

from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.indexing.bitstream.references import new_tracker


class DamageReach:
    """Follows what refers to what through all packets of a run, from its keyframe on.

    If a codec does not name its references, and from the first packet on that cannot be read, a packet counts as
    referring to all packets before it except disposable ones.

    Args:
        codec: codec of the stream.
        config: the configuration record of the run's packets.

    Examples:
        >>> reach = DamageReach("h264", avcc)
        >>> for number, payload in enumerate(packets):
        ...     reach.add(number, payload)
        >>> sorted(reach.of(21))
        [21, 22, 23, 24]
    """

    def __init__(self, codec: str, config: bytes) -> None:
        self._codec, self._config = codec, config
        self._tracker = new_tracker(codec, config)
        # For each packet, those that it refers to; None for all that may be referred to.
        self._needs: dict[int, set[int] | None] = {}
        self._alone: set[int] = set()

    def add(self, number: int, payload: bytes | memoryview) -> None:
        """Process the next packet."""
        self._needs[number] = None
        if self._tracker is not None:
            try:
                self._needs[number] = self._tracker.read(number, payload)
            except ValueError:
                self._tracker = None
        elif is_disposable(self._codec, self._config, payload):
            self._alone.add(number)

    def of(self, damaged: int) -> set[int]:
        """Return the packets that damage in one packet reaches, including that one.

        The set is empty for a packet that was left out: none of those added refers to it.
        """
        if damaged not in self._needs:
            return set()
        reached = {damaged}
        has_followers = damaged not in self._alone
        for number, needs in self._needs.items():
            if number > damaged and (has_followers if needs is None else not reached.isdisjoint(needs)):
                reached.add(number)
        return reached
