"""Open a source with libavformat so that it cannot open any other file or connection."""

from __future__ import annotations

import re
import struct
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache, partial, reduce
from typing import Any

import av
import av.container
import av.error
import av.format
import av.packet
import av.stream
import av.video.stream

from videoloader.errors import IndexingError, UnsupportedError, VideoLoaderError
from videoloader.errors.of_handlers import errors_suppressed
from videoloader.indexing.bitstream.nal import nal_length_size
from videoloader.indexing.decoder import common_options
from videoloader.indexing.limits import begin_search, count_time
from videoloader.indexing.matroska.ebml import EBML
from videoloader.indexing.matroska.opening import OpeningWork
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.state import SourceState, check_unchanged, state_of
from videoloader.indexing.sources.stream import StreamSource

# Bytes that libavformat reads at a time. Each read is a call into Python, but longer reads cost more at a jump than
# they save.
_BUFFER_SIZE = 64 << 10
# Formats that list other files, come from the network, or run scripts. Formats that open their input themselves
# (devices, patterns of image files) have a flag.
_OPEN_OTHERS = frozenset([
    "concat", "dash", "hls", "imf", "image2", "rtp", "rtsp", "sap", "sdp", "vapoursynth", "vobsub",
    "webm_dash_manifest",
])  # fmt: skip
_EXTENSION = re.compile(r".\.([a-z0-9]{1,12})", re.IGNORECASE)
_HEAD_SIZE = 64 << 10
_MATROSKA = EBML.to_bytes(4, "big")
# The start of a transport packet with the table of programs (ISO/IEC 13818-1, 2.4.3.2), and the number of bytes that
# libavformat searches for streams before it opens a file.
_PROGRAMS, _PROBED = re.compile(rb"\x47[\x40-\x7f]\0[\x10-\x1f\x30-\x3f]"), 5_000_000
# The start of NUT files, which is a packet that libavformat skips by its size; so are the other two (startcodes of the
# NUT specification). Each byte of the size but the last has its first bit set.
_NUT_STARTS = b"NMz\x56\x1f\x5f\x04\xad", b"NS\x11\x40\x5b\xf2\xf9\xdb", b"NX\xdd\x67\x2f\x23\xe6\x4e"
_NUT = re.compile(re.escape(_NUT_STARTS[0]))
_AVI = re.compile(rb"\A(?:RIFF|ON2 )....(?:AVI[ X\x19]|ON2f)", re.DOTALL)
_SKIPPED_IN_NUT = re.compile(b"(?:%s)([\x80-\xff]{0,10}.)" % b"|".join(map(re.escape, _NUT_STARTS)), re.DOTALL)
# Files that were searched for what libavformat never returns from, by name and state.
_harmless: set[tuple[str, SourceState]] = set()
_MOST_HARMLESS = 10_000
# Decoder options for pictures that are not looked at. The same pictures come out at the same time, but concealing
# damaged ones takes ten times as long as everything else, and a picture may be as short as nine bytes.
UNCONCEALED = {"ec": "0"}
_LISTS = {
    "an HLS playlist": (re.compile(rb"(?:\xef\xbb\xbf)?\s*#EXTM3U"), "x.m3u8"),
    "a list of files for FFmpeg (ffconcat)": (re.compile(rb"\s*ffconcat version"), "x.ffconcat"),
    "a DASH manifest": (re.compile(rb"(?:\xef\xbb\xbf)?\s*<[^\0]{0,4096}?MPD\b"), "x.mpd"),
    "a description of network streams (SDP)": (re.compile(rb"[^\0]*?^c=IN IP", re.MULTILINE), "x.sdp"),
}

# Before version 19, PyAV refused files whose titles are not UTF-8 unless this option was set. Later versions do not
# have it.
LENIENT_METADATA: dict[str, Any] = {"metadata_errors": "ignore"} if int(av.__version__.split(".")[0]) < 19 else {}


# A move of libavformat in a file: the offset, and where it counts from, or that the size is asked for (AVSEEK_SIZE).
_MOVE, _NO_MOVE, _ASKS_FOR_SIZE = struct.Struct("qq"), -1, 0x10000


class _Input:
    """A source as PyAV reads it. Its name keeps only the extension, by which libavformat recognises some formats.

    Attributes:
        source: as given.
        read, seek, tell: functions that PyAV calls.
        work: counts what libavformat gets while a Matroska file is opened.
        error: the first error that one of them met. PyAV would lose all that are no ``Exception``, such as Ctrl-C.
    """

    def __init__(self, source: ByteSource) -> None:
        name = (source.file if isinstance(source, StreamSource) else source).name
        extension = _EXTENSION.fullmatch(name[name.rfind(".") - 1 :])
        self.name = f"video.{extension[1]}" if extension else "video"
        self.source, self._position = source, 0
        self.work: OpeningWork | None = None
        self.error: BaseException | None = None
        self._ended = False
        self._answers = self._answer_all()
        next(self._answers)
        self.read, self.tell = self._answers.send, self._answers.__next__
        # PyAV loses what a handler of a signal raises in ``seek``, unless it is an ``Exception``, and libavformat goes
        # on as if the move had failed. So no code of Python runs there: a move is noted, and made before what follows.
        self._moved = bytearray(_MOVE.pack(0, _NO_MOVE))
        self.seek = partial(_MOVE.pack_into, self._moved, 0)

    def _move(self) -> int:
        """Make the move that was noted, and return the position, or the size if that was asked for."""
        offset, whence = _MOVE.unpack(self._moved)
        if whence == _ASKS_FOR_SIZE:
            _MOVE.pack_into(self._moved, 0, 0, _NO_MOVE)
            return self.source.size
        if whence != _NO_MOVE:
            self._position = offset + (0, self._position, self.source.size)[whence]
            _MOVE.pack_into(self._moved, 0, 0, _NO_MOVE)
        return self._position

    def _answer_all(self) -> Generator[bytes | int | None, int | None, None]:
        """Read so many bytes each time, or tell the position if no number is sent.

        When libavformat's work is interrupted by a signal, Python runs the handler as soon as it reads. An exception of
        the handler would be raised in front of the first ``try`` of a function, but where a generator goes on.
        """
        answer: bytes | int | None = None
        while True:
            try:
                while True:
                    size = yield answer
                    answer = b""  # what is read after an error
                    if size is None:
                        answer = self._move()
                    elif self.error is None:
                        self._move()
                        count_time()  # libavformat may search all of a file for the next packet
                        answer = data = self.source.read(self._position, size)
                        if self.work is not None:
                            self.work.take(self._position, data)
                        self._position += len(data)
            except BaseException as error:
                if self._ended:
                    return
                self.error, answer = error, None  # PyAV takes None for an error, so that libavformat stops at once
                if isinstance(error, GeneratorExit):  # a handler interrupted what would have used this object
                    return

    @contextmanager
    def raising_its_error(self) -> Iterator[None]:
        """Raise the error that ``read`` met in the block, in place of what PyAV and libavformat make of it."""
        try:
            yield
        except BaseException:
            if self.error is None:
                raise
        finally:
            self._ended = True
            self._answers.close()  # it refers to this object
        if self.error is not None:
            raise self.error from self.error.__cause__


@contextmanager
def open_demuxer(source: ByteSource) -> Iterator[av.container.InputContainer]:
    """Open a libavformat container that reads a source.

    Raises:
        IndexingError: libavformat does not recognise the file, fails to read it, or would never stop reading it.
        UnsupportedError: the file is a list of other files, or of streams, or one over which libavformat ends the
            process.
        SourceError: the source cannot be read.
    """
    begin_search()
    head = source.read(0, _HEAD_SIZE)
    if found := [start for start in _CHECKS if start.search(head)]:
        _check_once(source, found)
    options = {"protocol_whitelist": "", "format_whitelist": _whole_formats(with_nut=_NUT in found)}
    # libavformat decodes some packets to describe a stream.
    probing = common_options() | UNCONCEALED
    file = _Input(source)
    if head.startswith(_MATROSKA):
        file.work = OpeningWork(source.name)
        options["fflags"] = "+ignidx"  # nothing seeks, and cues that go back take long to sort
    with file.raising_its_error():
        try:
            container = av.open(
                file, options=probing, container_options=options, buffer_size=_BUFFER_SIZE, **LENIENT_METADATA
            )
        except av.error.FFmpegError as error:
            _refuse_lists(head, source.name)
            told = f"libavformat cannot read it: {error.strerror}{_what_else(head, source.name)}"
            raise IndexingError(told, source.name) from None
        file.work = None
        with container:
            try:
                yield container
            except av.error.FFmpegError as error:
                raise IndexingError(f"libavformat cannot read it: {error.strerror}", source.name) from None


def start_by_libavformat(source: ByteSource) -> int | None:
    """Return libavformat's ``start_time`` in microseconds, which depends on how far it reads; None if it tells none."""
    with errors_suppressed(VideoLoaderError), open_demuxer(source) as container:
        start: int | None = container.start_time
        return start
    return None


def demuxed(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, incomplete: list[int] | None = None
) -> Iterator[av.packet.Packet[Any]]:
    """Yield the packets of a stream, for each of which libavformat may search only for so long.

    A packet that ends where its file was cut off, inside a NAL unit whose length it states, is left out, since
    libavcodec refuses it. Where units have start codes, it shows a part of the picture.

    Args:
        container: open container.
        stream: stream of it.
        incomplete: list to add the bytes of a packet that is left out to.
    """
    config = stream.codec_context.extradata or b""
    states_lengths = nal_length_size(stream.codec_context.codec.canonical_name, config) > 0
    if container.format.name == "matroska,webm":
        # A few bytes may unpack to megabytes, and nothing interrupts PyAV while it passes over other streams.
        for other in container.streams:
            if other is not stream:
                other.discard = av.stream.Discard.all
    # PyAV leaves 150 bytes behind where its generator is dropped after the first packet, and not closed.
    with closing(container.demux(stream)) as packets:  # type: ignore[type-var]  # it is a generator
        for packet in packets:
            count_time()
            if not (states_lengths and packet.is_corrupt):
                yield packet
            elif incomplete is not None:
                incomplete.append(packet.size)
            begin_search()


def if_archive(head: bytes, name: str) -> str:
    """Return the advice for a file that is an archive, for the message; empty if it is none."""
    if head[257:262] == b"ustar" or head.startswith(b"PK\x03\x04"):
        return f": it is an archive, whose members are named as '{name}::clip.mp4'; from_archives takes all"
    return ""


def _what_else(head: bytes, name: str) -> str:
    """The kind of a file that is no video, for the message; empty where that is not known."""
    if head.startswith(b"\x1f\x8b"):
        return ": it is compressed (gzip): decompress it first"
    return ": it is text" if re.fullmatch(rb"[\t\r\n -~]+", head[:16]) else ""


@cache
def _whole_formats(*, with_nut: bool) -> str:
    """Return the formats that libavformat reads from one file alone, in the form of its whitelist."""
    names = []
    for name in sorted(av.formats_available):
        try:
            known = av.format.ContainerFormat(name, "r")
        except ValueError:  # a format that can only be written
            continue
        if not known.no_file and _OPEN_OTHERS.isdisjoint(known.name.split(",")) and (with_nut or name != "nut"):
            names.append(known.name)
    return ",".join(names)


def _check_once(source: ByteSource, found: list[re.Pattern[bytes]]) -> None:
    """Search a file for what libavformat never returns from.

    A video that is demuxed is opened again for each read, but one that has not changed is not searched again.
    """
    state = state_of(source)
    if (source.name, state) in _harmless:
        check_unchanged(source)
        return
    for start in found:
        _CHECKS[start](source)
    if state is not None:
        if len(_harmless) >= _MOST_HARMLESS:
            _harmless.clear()
        _harmless.add((source.name, state))


def _refuse_what_aborts(source: ByteSource) -> None:
    """Refuse transport streams over which libavformat ends the process (``has_decode_delay_been_guessed``)."""
    from videoloader.indexing.mpegts.tables import becomes_h264

    if becomes_h264(source.read(0, _PROBED)):
        hint = "libavformat would end the process: cut the file there"
        raise UnsupportedError(f"a stream of it becomes H.264 on the way; {hint}", source.name)


def _refuse_what_goes_back(source: ByteSource) -> None:
    """Refuse a NUT file with a size that libavformat takes for a negative one.

    It would skip back, and read the same packets forever.
    """
    for begin in range(0, source.size, _PROBED):
        for found in _SKIPPED_IN_NUT.finditer(source.read(begin, _PROBED + 64)):
            size = reduce(lambda value, byte: value << 7 | byte & 0x7F, found[1], 0)
            if size & 1 << 31 or len(found[1]) > 10:  # such a size does not fit into 64 bits
                raise IndexingError(f"a NUT packet at byte {begin + found.start()} claims {size} bytes", source.name)


# What a head that contains the pattern is checked for.
def _refuse_what_takes_memory(source: ByteSource) -> None:
    from videoloader.indexing.avi.opening import check_opening

    check_opening(source)


_CHECKS = {_PROGRAMS: _refuse_what_aborts, _NUT: _refuse_what_goes_back, _AVI: _refuse_what_takes_memory}


def _refuse_lists(head: bytes, name: str) -> None:
    for kind, (start, example) in _LISTS.items():
        if start.match(head):
            hint = f"remux it to one file (e.g. `ffmpeg -i {example} -c copy x.mp4`)"
            raise UnsupportedError(f"is {kind}; the files it lists are never opened: {hint}", name)
