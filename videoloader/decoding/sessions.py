"""Keep NVDEC sessions open from video to video, shared by all threads of the process."""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from videoloader.decoding.capabilities import blocks_of, pynvvideocodec
from videoloader.decoding.nvdec_codecs import NVDEC_CODECS, NvdecCodec
from videoloader.decoding.primer import PRIMER_PICTURE
from videoloader.errors import ConfigurationError, DecodeError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_positive
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.runtime.condition import Condition
from videoloader.runtime.device import own_stream, resolve_device, trim_heaps
from videoloader.runtime.forks import after_fork, free_after_fork

# A session is made for the largest picture of its class, so that it can take any smaller one. Width and height are each
# rounded up to one of these.
_SIZE_CLASSES = (384, 640, 736, 1088, 1280, 1920, 2176, 2560, 3840, 4096, 8192)
_LARGEST_DEFAULT_MEMORY = 4 << 30
# A session that this many runs did not need is closed. It was opened when many of its key were needed at once.
_RUNS_UNUSED = 1000
# A session that changed its size this often is closed. The driver (580) keeps 0.6 to 2.5 KB of the host's memory for
# each change until then. Opening another one takes less than a hundredth of the time of as many runs.
_MOST_RECONFIGURATIONS = 4000
_NOTHING = bytearray(1)  # so that an empty payload has an address, too


class SessionError(DecodeError):
    """A session failed; a new one may work."""

    @property
    def short_of_resources(self) -> bool:
        """Whether the reason was a lack of GPU memory, or the driver opens no more decoders."""
        return "MEMORY" in self.message.upper() or "HandleVideoSequence" in self.message


class SessionKey(NamedTuple):
    """The properties that a session cannot change: NVDEC refuses to reconfigure any of them."""

    codec: str
    chroma: str
    bit_depth: int
    max_width: int
    max_height: int


def session_key(codec: str, picture: PictureFormat) -> SessionKey:
    """Return the key of the sessions that can decode a video."""
    width, height = (
        next(size for size in _SIZE_CLASSES if pixels <= size)
        for pixels in (max(picture.width, picture.coded_size[0]), max(picture.height, picture.coded_size[1]))
    )
    return SessionKey(codec, picture.chroma, picture.bit_depth, width, height)


def packets_a_call(picture: PictureFormat) -> int:
    """Return the number of packets to give NVDEC at once.

    A call releases the GIL and must then queue for it behind the other decoding threads. Small pictures decode so fast
    that one call for each would leave NVDEC idle. PyNvVideoCodec keeps a buffer for each picture that a call outputs; a
    flush outputs four anyway, and more cost memory (8 at 1080p: 16 MiB a session).
    """
    return 16 if picture.width * picture.height <= 640 * 480 else 4


def session_bytes(key: SessionKey, picture: PictureFormat) -> int:
    """Estimate the GPU memory of a session. Fitted to 240p to 4K on an H200; at most 11 % off.

    Surfaces are as large as the key allows. There are as many as the stream may make the decoder hold, and some more.
    Added to these are working memory, which grows less than proportionally with the size, and the output pictures.
    """
    plain = key.max_width * key.max_height * 1.5
    sample = (3 if key.chroma == "444" else 1.5) * (2 if key.bit_depth > 8 else 1)
    surface = key.max_width * key.max_height * sample
    working = NVDEC_CODECS[key.codec].memory(plain, surface, picture.buffering)
    return int(working + packets_a_call(picture) * picture.width * picture.height * sample)


class Session:
    """A PyNvVideoCodec decoder, its CUDA stream, and the video it was last set up for.

    Attributes:
        stream: the stream that readers of a surface must use, since the next call reuses the surface's memory.
        picture: picture format of the last video; None for a new session.
        bytes: GPU memory, by ``session_bytes``.
        last_run: the pool's number of the run that used the session last.
        reconfigurations: number of times that it was set up for another size.
    """

    last_run = reconfigurations = 0

    def __init__(self, key: SessionKey, gpu: int) -> None:
        nvc = pynvvideocodec()
        self.key = key
        self.picture: PictureFormat | None = None
        self.bytes = 0
        self._buffering: tuple[int, ...] = ()
        self._packet = nvc.PacketData
        # PyNvVideoCodec uses the context that is current in this thread, whatever gpuid says.
        with torch.cuda.device(gpu):
            self.stream = own_stream(torch.device("cuda", gpu), self)
            try:
                self._decoder = nvc.CreateDecoder(
                    gpuid=gpu,
                    codec=getattr(nvc.cudaVideoCodec, self._facts.name),
                    cudacontext=0,
                    cudastream=self.stream.cuda_stream,
                    usedevicememory=True,
                    maxwidth=key.max_width,
                    maxheight=key.max_height,
                )
            except Exception as error:
                raise _refusal(error) from error

    @property
    def _facts(self) -> NvdecCodec:
        return NVDEC_CODECS[self.key.codec]

    def fits(self, picture: PictureFormat) -> bool:
        """Whether the session decodes a video correctly as it is.

        It sets itself up again only for another coded size. A video of the same coded size that is cropped differently,
        or that lets the decoder hold more pictures than the session has room for, comes out wrong, without an error.
        """
        if self.picture is None or blocks_of(self.picture) != blocks_of(picture):
            return True
        same_cut = (self.picture.width, self.picture.height, self.picture.coded_size) == (
            (picture.width, picture.height, picture.coded_size)
        )
        return (
            same_cut
            and len(picture.buffering) == len(self._buffering)
            and all(new <= had for new, had in zip(picture.buffering, self._buffering, strict=True))
        )

    def is_set_up_for(self, picture: PictureFormat) -> bool:
        """Whether the session fits without setting itself up again."""
        return self.picture is not None and blocks_of(self.picture) == blocks_of(picture) and self.fits(picture)

    def can_show(self, picture: PictureFormat) -> bool:
        """Whether the session fits, or can be made to fit by a picture of another size in between."""
        return self.fits(picture) or self._facts.can_begin_whole(picture)

    def show(self, picture: PictureFormat) -> None:
        """Prepare for a video that the session can show.

        PyNvVideoCodec decides with a session's first picture whether to blend the fields of interlaced ones. So if the
        video's own first picture may be interlaced, the session is given a progressive one first.
        """
        if (self.picture is None and self._facts.may_interlace(picture)) or not self.fits(picture):
            self._prepare(PRIMER_PICTURE)
            self.feed(bytearray(self._facts.primer()))
            self.feed(bytearray())
        self._prepare(picture)

    def _prepare(self, picture: PictureFormat) -> None:
        last, self.picture = self.picture, picture
        if last is None or blocks_of(last) != blocks_of(picture):
            self._buffering = picture.buffering
            if last is not None:
                self.reconfigurations += 1
                self._reconfigure(picture)

    def _reconfigure(self, picture: PictureFormat) -> None:
        # Otherwise the session would continue to crop pictures to the shape of its last video.
        try:
            self._decoder.setReconfigParams(picture.width, picture.height)
        except Exception as error:
            raise _refusal(error) from error

    def feed(self, payload: bytearray, *, time: int = 0, seen_from: int = 0) -> list[Any]:
        """Decode one or several packets; flush if there are none. The surfaces are valid until the next call.

        Args:
            payload: the packets.
            time: time of the first picture in the payload, if pictures are to be left out. Times rise in display order.
                Each further picture gets the time of the one shown before it plus some more.
            seen_from: if not 0, surfaces of pictures before this time are empty: they are neither converted nor copied,
                and a picture that no other refers to is not decoded.
        """
        self._decoder.SetSeekPTS(seen_from)
        packet = self._packet()
        packet.pts = time
        packet.bsl_data = ctypes.addressof(ctypes.c_char.from_buffer(payload or _NOTHING))
        packet.bsl = len(payload)
        try:
            surfaces: list[Any] = self._decoder.Decode(packet)
        except Exception as error:  # its own PyNvVCException, or a RuntimeError
            raise _refusal(error) from error
        return surfaces

    def close(self) -> None:
        """Free its memory, once nothing reads its surfaces any more. This takes about 60 ms."""
        self.stream.synchronize()
        self._decoder = None


def _refusal(error: Exception) -> SessionError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return SessionError(f"NVDEC refuses the stream: {reason[:300]}")


class SessionPool:
    """The sessions on one GPU, each lent to one run at a time.

    Args:
        gpu: CUDA device number.
        memory: bytes of GPU memory that all sessions together may take, by ``session_bytes``. A session that needs more
            is made anyway if no other is in use.
    """

    def __init__(self, gpu: int, memory: int) -> None:
        self._gpu = gpu
        self._memory = memory
        self._changed = Condition()
        self._idle: list[Session] = []  # the one used last is at the end
        # Each run has a ticket, so that one that a signal's handler ends at any line is forgotten.
        self._lent: dict[object, int] = {}  # bytes
        self._runs = 0
        self._waiting: dict[object, None] = {}  # tickets, in turn

    def set_memory(self, memory: int) -> None:
        """Set another budget, and close idle sessions that exceed it."""
        with self._changed:
            self._memory = memory
            closing = self._take_surplus()
            self._changed.notify_all()
        _close(closing)

    def used_bytes(self) -> int:
        """Return the GPU memory of all sessions, by ``session_bytes``."""
        with self._changed:
            return self._used()

    def close_idle(self) -> None:
        """Close all sessions that are not lent."""
        with self._changed:
            closing, self._idle = self._idle, []
        _close(closing)

    @contextmanager
    def lend(self, key: SessionKey, picture: PictureFormat, *, new: bool = False) -> Iterator[Session]:
        """Lend a session set up for the picture during the block. If the block raises an error, the session is closed.

        This waits while all the memory is lent. A thread that has a session must not ask for another one.

        Args:
            key: result of ``session_key``.
            picture: picture format of the video.
            new: True if it must be a session that has decoded nothing yet.
        """
        ticket, session = object(), None
        try:
            session, closing = self._take(ticket, key, picture, new)
            _close(closing)
            if session is None:
                session = Session(key, self._gpu)
            session.bytes = self._lent[ticket]
            session.show(picture)
            yield session
            self._give_back(ticket, session)
        except BaseException:
            if session is not None and ticket in self._lent:
                _close([session])
            self._give_back(ticket, None)
            raise

    def _take(
        self, ticket: object, key: SessionKey, picture: PictureFormat, new: bool
    ) -> tuple[Session | None, list[Session]]:
        """Return (an idle session, or None if one is to be made; sessions to close first)."""
        size = session_bytes(key, picture)
        with self._changed:
            # In turn, so that small sessions do not delay a large one forever.
            self._waiting[ticket] = None
            try:
                self._changed.wait_for(lambda: next(iter(self._waiting)) is ticket)
                while True:
                    session = None if new else self._find(key, picture)
                    lent = max(size, session.bytes) if session else size  # a session may take more for another picture
                    if not self._lent or sum(self._lent.values()) + lent <= self._memory:
                        break
                    self._changed.wait()
                if session is not None:
                    self._idle.remove(session)
                self._lent[ticket] = lent
                return session, self._take_surplus()
            finally:
                del self._waiting[ticket]
                self._changed.notify_all()

    def _find(self, key: SessionKey, picture: PictureFormat) -> Session | None:
        """Return an idle session: one that is set up already, else one that fits, else one that can be made to fit.

        Setting up again costs at most a millisecond; a new session costs 45 ms and closing it 65 ms (1080p, H200). The
        session used last is preferred, so that unneeded ones stay unused and are closed.
        """
        same = [session for session in reversed(self._idle) if session.key == key]
        for suits in (Session.is_set_up_for, Session.fits, Session.can_show):
            for session in same:
                if suits(session, picture):
                    return session
        return None

    def _used(self) -> int:
        return sum(self._lent.values()) + sum(session.bytes for session in self._idle)

    def _take_surplus(self) -> list[Session]:
        """Remove the idle sessions that exceed the budget, are no longer needed, or changed their size too often.

        Those used least recently come first. Only the last one can have changed its size since the last call.
        """
        surplus = []
        while self._idle and (self._used() > self._memory or self._runs - self._idle[0].last_run > _RUNS_UNUSED):
            surplus.append(self._idle.pop(0))
        if self._idle and self._idle[-1].reconfigurations >= _MOST_RECONFIGURATIONS:
            surplus.append(self._idle.pop())
        return surplus

    def _give_back(self, ticket: object, session: Session | None) -> None:
        with self._changed:
            for tickets in (self._waiting, self._lent):
                tickets.pop(ticket, None)
            if session is not None:
                self._runs += 1
                session.last_run = self._runs
                self._idle.append(session)
            closing = self._take_surplus()
            self._changed.notify_all()
        _close(closing)


def _close(sessions: list[Session]) -> None:
    """Close sessions, and give back what they freed. Call this outside of the pool's lock, since it takes long."""
    for session in sessions:
        session.close()
    if sessions:
        trim_heaps()


_pools: dict[int, SessionPool] = {}
_pools_lock = free_after_fork(threading.Lock())
# Pools of the process that this one was forked from. CUDA does not survive a fork, so they are neither used nor closed.
_inherited: list[SessionPool] = []


def pool_of(gpu: int) -> SessionPool:
    """Return the pool of a GPU, made on the first call with a budget of 4 GiB or an eighth of the GPU's memory."""
    with _pools_lock:
        if gpu not in _pools:
            total = torch.cuda.get_device_properties(gpu).total_memory
            _pools[gpu] = SessionPool(gpu, min(_LARGEST_DEFAULT_MEMORY, total // 8))
        return _pools[gpu]


@atexit.register
def _close_all() -> None:
    # If the interpreter closed them, it would be after the CUDA driver has ended.
    for pool in _pools.values():
        pool.close_idle()


def _leave_to_parent() -> None:
    _inherited.extend(_pools.values())
    _pools.clear()


after_fork(_leave_to_parent)


@tells_of_arguments
def set_decoder_memory(limit: int, device: str | torch.device = "cuda") -> None:
    """Set how much GPU memory all NVDEC sessions of this process may take together.

    Sessions stay open for the next video, since opening one costs about 50 ms. When a new session would exceed the
    limit, the least recently used ones are closed; if even that does not make room, threads wait for one another. A
    session takes about 10 MB for 360p, 66 MB for 1080p H.264, and 130 MB for 10-bit 1080p HEVC, and about half as much
    of the host's memory.

    Args:
        limit: int. The number of bytes. Without this call it is 4 GiB, or an eighth of the GPU's memory if that is
            less. A single session may exceed it.
        device: str or torch.device, default ``"cuda"``. ``"cuda"`` or ``"cuda:N"``.

    Raises:
        ConfigurationError: there is no such device, or the limit is not positive.

    Examples:
        >>> set_decoder_memory(1 << 30)
    """
    check_positive(limit=limit)
    resolved = resolve_device(device)
    if resolved.type != "cuda":
        raise ConfigurationError(f"device is {device!r}; NVDEC sessions are on CUDA devices only")
    pool_of(resolved.index).set_memory(limit)
