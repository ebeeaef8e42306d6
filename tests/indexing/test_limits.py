"""What one file may cost: each bound refuses what is beyond it in one line that names it, and nothing below it."""

from __future__ import annotations

import csv
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import pytest
from archive_writing import recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from bit_writing import BitWriter, with_emulation_prevention
from example_count import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from image_files import grey_pixel, png_of
from remuxing import remux, rewritten

import videoloader as vl
from videoloader.dataset import VideoDataset
from videoloader.errors import ConfigurationError, IndexingError, UnsupportedError, VideoLoaderError
from videoloader.indexing import Limits, build_index, open_source, set_limits
from videoloader.indexing.libav import index_by_decoding
from videoloader.indexing.limits import current_limits
from videoloader.indexing.store.frame_table import pack_index


@pytest.fixture(autouse=True)
def _limits_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOLOADER_LIMITS", "")


class TestSetting:
    def test_what_is_not_given_stays(self) -> None:
        assert current_limits() == Limits()
        assert set_limits(decode_seconds=2.5) == Limits(decode_seconds=2.5)
        assert set_limits(member_bytes=7) == current_limits() == Limits(member_bytes=7, decode_seconds=2.5)
        assert set_limits() == Limits(member_bytes=7, decode_seconds=2.5)

    @pytest.mark.parametrize("value", [10**9 + 1, 1e300, float("inf")])
    def test_seconds_have_a_bound_that_timers_can_keep(self, value: float) -> None:
        with pytest.raises(
            ConfigurationError, match="decode_seconds must be a positive number of seconds up to 10000000"
        ):
            set_limits(decode_seconds=value)
        assert set_limits(decode_seconds=10**9).decode_seconds == 10**9

    def test_seconds_may_be_a_fraction(self) -> None:
        assert set_limits(decode_seconds=Fraction(1, 2)) == current_limits() == Limits(decode_seconds=0.5)  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", vars(Limits()))
    @pytest.mark.parametrize("value", [0, -1, "many", True, float("nan")])
    def test_limits_are_positive_numbers(self, name: str, value: object) -> None:
        with pytest.raises(ConfigurationError, match=f"{name} must be a positive"):
            set_limits(**{name: value})  # type: ignore[arg-type]
        assert current_limits() == Limits()

    @pytest.mark.parametrize("text", ["decode_seconds", "decode_second=3", "member_bytes=x", "member_bytes=0", "a=b=c"])
    def test_the_environment_says_the_same(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setenv("VIDEOLOADER_LIMITS", "decode_seconds=60 picture_pixels=40000000")
        assert current_limits() == Limits(decode_seconds=60, picture_pixels=40_000_000)
        monkeypatch.setenv("VIDEOLOADER_LIMITS", text)
        with pytest.raises(ConfigurationError):
            current_limits()

    @pytest.mark.parametrize("pixels", [2**31 - 1, 2**31, 4_000_000_000, 2**63 - 1])
    def test_decoders_take_any_limit(self, sample: Callable[[str], Path], pixels: int) -> None:
        set_limits(picture_pixels=pixels)
        assert vl.Video(sample("h264_mp4"), device="cpu")[0].shape == (3, 128, 160)

    def test_processes_have_them(self, sample: Callable[[str], Path], tmp_path: Path) -> None:
        video = sample("h264_mp4")
        set_limits(picture_pixels=100)
        report = vl.build_store([video], tmp_path / "index.db", workers=1)
        ((_, told),) = report.unreadable
        assert told.startswith(
            "has pictures of 160×128 pixels, beyond the limit picture_pixels=100: videoloader.set_li"
        )
        set_limits(picture_pixels=1 << 27)
        assert vl.build_store([video], tmp_path / "index.db", workers=1, retry=True).indexed == 1
        set_limits(picture_pixels=100)  # which holds for what a store says, too
        with pytest.raises(UnsupportedError, match="beyond the limit picture_pixels=100"):
            vl.IndexStore(tmp_path / "index.db").get(video)


class TestMembers:
    @given(st.binary(max_size=3000), st.integers(0, 3_000_000))
    @settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_members_are_unpacked_whole(self, tmp_path: Path, start: bytes, zeros: int) -> None:
        data = start + bytes(zeros) + b"!"
        (tmp_path / "a.zip").write_bytes(zip_bytes({"x": data}, zipfile.ZIP_DEFLATED))
        source = open_source(f"{tmp_path}/a.zip::x")
        assert source.read(0, source.size) == data

    def test_those_beyond_the_limit_are_refused_before_they_are_unpacked(self, tmp_path: Path) -> None:
        path = tmp_path / "a.zip"
        path.write_bytes(zip_bytes({"x": bytes(1 << 20)}, zipfile.ZIP_DEFLATED))
        set_limits(member_bytes=(1 << 20) - 1)
        with pytest.raises(UnsupportedError, match=r"a\.zip::x: is deflated, and 1048576 .* member_bytes=1048575: "):
            open_source(f"{path}::x")
        set_limits(member_bytes=1 << 20)
        assert open_source(f"{path}::x").size == 1 << 20

    def test_small_files_beside_videos_are_counted_together(self, tmp_path: Path) -> None:
        path = tmp_path / "a.zip"
        beside = {f"{number}.txt": bytes(64 << 10) for number in range(100)}
        path.write_bytes(zip_bytes({"0.mp4": b"video", **beside}, zipfile.ZIP_DEFLATED))
        assert len(VideoDataset.from_archives(path)) == 1
        set_limits(table_bytes=6_000_000)
        with pytest.raises(UnsupportedError, match=r"a\.zip: has 6553600 bytes of small files, unpacked, beyond"):
            VideoDataset.from_archives(path)

    def test_json_counts_with_what_it_takes_in_memory(self, tmp_path: Path) -> None:
        path, lists = tmp_path / "a.zip", b"[" + b"[]," * 20_000 + b"[]]"
        members = {f"{number}.{ending}": lists for number in range(20) for ending in ("mp4", "json", "txt")}
        path.write_bytes(zip_bytes(members, zipfile.ZIP_DEFLATED))
        set_limits(table_bytes=20_000_000)
        with pytest.raises(UnsupportedError, match=r"a\.zip: has JSON files of \d{8} bytes in memory, unpacked"):
            VideoDataset.from_archives(path)
        set_limits(table_bytes=40_000_000)
        assert len(VideoDataset.from_archives(path)) == 20

    def test_a_member_lies_in_memory_once(self, tmp_path: Path) -> None:
        size = 32 << 20
        (tmp_path / "a.zip").write_bytes(zip_bytes({"x": bytes(size)}, zipfile.ZIP_DEFLATED))
        tracemalloc.start()
        try:
            source = open_source(f"{tmp_path}/a.zip::x")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert source.size == size
        assert peak < 1.3 * size

    def test_sizes_that_lie_cost_no_more_than_they_say(self, tmp_path: Path) -> None:
        content = bytearray(zip_bytes({"x": bytes(8 << 20)}, zipfile.ZIP_DEFLATED))
        for signature, at in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
            place = content.find(signature) + at
            content[place : place + 4] = struct.pack("<I", 1 << 20)
        (tmp_path / "a.zip").write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(IndexingError, match="is damaged: its checksum does not match"):
                open_source(f"{tmp_path}/a.zip::x")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20


@pytest.mark.parametrize("name", ["a.idx", "r.idx", "t.tfrecord.idx", "f/times.txt", "a.zip"])
def test_files_that_only_claim_to_be_large_take_little_memory(tmp_path: Path, name: str) -> None:
    size = 1 << 30
    (tmp_path / "f").mkdir()
    (tmp_path / "f/0.png").write_bytes(png(8, 8))
    (tmp_path / "a.tar").write_bytes(tar_bytes({"0.mp4": b"video"}))
    (tmp_path / "r.rec").write_bytes(recordio_bytes([b"video"])[0])
    (tmp_path / "t.tfrecord").write_bytes(tfrecord_bytes([b"video"]))
    uses = {
        "a.idx": lambda: VideoDataset.from_archives(tmp_path / "a.tar"),
        "r.idx": lambda: open_source(f"{tmp_path}/r.rec::0"),
        "t.tfrecord.idx": lambda: open_source(f"{tmp_path}/t.tfrecord::0"),
        "f/times.txt": lambda: build_index(f"{tmp_path}/f::timestamps=times.txt"),
        "a.zip": lambda: open_source(f"{tmp_path}/a.zip::0"),
    }
    with (tmp_path / name).open("wb") as file:
        if name == "a.zip":
            file.write(b"PK\3\4")
            file.seek(size - 22)
            file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, size - 22 - 30, 30, 0))
        file.truncate(size)
    tracemalloc.start()
    try:
        with suppress(VideoLoaderError):
            uses[name]()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 256 << 20


def png(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return png_of((b"IHDR", header), (b"IDAT", zlib.compress(bytes(99))))


def tiff(width: int, height: int) -> bytes:
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (279, 4, 1, 0)]
    return (
        b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *t) for t in tags) + bytes(4)
    )


def webp(width: int, height: int) -> bytes:
    size = [(each - 1).to_bytes(3, "little") for each in (width, height)]
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + size[0] + size[1]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def bmp(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)


def netpbm(width: int, height: int) -> bytes:
    return b"P6 %d %d 255\n" % (width, height)


def jpeg(width: int, height: int) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    scan = b"\1\1\0\0\x3f\0"
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", 11) + frame + b"\xff\xda\0\x08" + scan + b"\0\xff\xd9"


@pytest.mark.parametrize("write", [png, tiff, webp, bmp, netpbm, jpeg])
@given(width=st.integers(1, 65535), height=st.integers(1, 65535))
@settings(max_examples=examples(40))
def test_pictures_beyond_the_limit_are_refused_by_their_header(
    write: Callable[[int, int], bytes], width: int, height: int
) -> None:
    picture = write(width, height)
    if width * height > Limits().picture_pixels:
        told = rf"has pictures of {width}×{height} pixels, beyond the limit picture_pixels=134217728: .*set_limits"
        with pytest.raises(UnsupportedError, match=told):
            build_index(picture)
    else:
        assert build_index(picture).stream.display_size == (height, width)


def test_a_size_that_no_decoder_can_be_told_is_refused(sample: Callable[[str], Path], tmp_path: Path) -> None:
    """A first packet that is no keyframe is decoded, whatever its parameter set says."""
    path = remux(sample("h264_mp4"), tmp_path / "x.mp4", rewritten(lambda number, data: data[:4] + b"\x41" + data[5:]))
    data = path.read_bytes()
    place = data.index(b"avcC") + 4 + 6  # of the set's length
    length = int.from_bytes(data[place : place + 2], "big")
    high = BitWriter().u(66, 8).u(0, 8).u(30, 8).ue(0).ue(0).ue(0).ue(0).ue(1).u(0, 1).ue(9).ue(1 << 28).u(0b110000, 6)
    sps = (b"\x67" + with_emulation_prevention(high.bytes())).ljust(length, b"\0")
    assert len(sps) == length
    path.write_bytes(data[: place + 2] + sps + data[place + 2 + length :])
    with pytest.raises(UnsupportedError, match=r"160×4294967312 pixels, beyond the limit picture_pixels"):
        build_index(path)


def elementary(frames: int, width: int = 64) -> bytes:
    """Raw H.264, which must be decoded to be indexed."""
    import av

    out = io.BytesIO()
    with av.open(out, "w", format="h264") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width = stream.height = width
        stream.pix_fmt = "yuv420p"
        for _ in range(frames):
            picture = av.VideoFrame(width, width, "yuv420p")
            for plane in picture.planes:
                plane.update(bytes(plane.buffer_size))
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return out.getvalue()


class TestDecoding:
    def test_so_many_packets(self) -> None:
        data = elementary(30)
        set_limits(decode_packets=60)
        assert len(build_index(data)) == 30
        set_limits(decode_packets=10)
        told = "takes decoding of more than 10 packets, beyond the limit decode_packets=10: videoloader.set_limits"
        with pytest.raises(UnsupportedError, match=told):
            build_index(data)

    def test_so_long(self) -> None:
        set_limits(decode_seconds=1e-9)
        told = r"takes longer than 1e-09 s to search and decode while it is indexed, .* limit decode_seconds="
        with pytest.raises(UnsupportedError, match=told):
            build_index(elementary(30))

    def test_so_long_a_search_for_packets(self) -> None:
        set_limits(decode_seconds=0.05)
        with pytest.raises(UnsupportedError, match=r"to packet 0, beyond the limit decode_seconds=0\.05"):
            build_index(b"RIFF\xff\xff\xff\xffAVI LIST" + bytes(32 << 20))

    def test_so_long_a_search_for_one_packet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("videoloader.indexing.limits._LONGEST_SEARCH", 0.05)
        with pytest.raises(UnsupportedError, match=r"libavformat finds no packet of its video in 0\.05 s of processor"):
            build_index(b"RIFF\xff\xff\xff\xffAVI LIST" + bytes(32 << 20))

    def test_files_that_tell_by_themselves_take_no_decoding(self, sample: Callable[[str], Path]) -> None:
        set_limits(decode_seconds=1e-9, decode_packets=1)
        for name in ("h264_mp4", "vp9_webm", "h264_mp4_vfr"):
            assert len(build_index(sample(name))) == 60

    def test_pictures_of_streams_have_the_same_limit(self) -> None:
        data = elementary(2, width=256)
        set_limits(picture_pixels=256 * 256 - 1)
        with pytest.raises(
            UnsupportedError, match="has pictures of 256×256 pixels, beyond the limit picture_pixels=65535"
        ):
            build_index(data)
        set_limits(picture_pixels=256 * 256)
        assert len(build_index(data)) == 2

    def test_pictures_that_grow_on_the_way_are_refused_where_they_do(self) -> None:
        data = elementary(3) + elementary(3, width=512)
        assert len(build_index(data)) == 6
        set_limits(picture_pixels=512 * 512 - 1)
        with pytest.raises(vl.VideoLoaderError):
            build_index(data)


def compressed_tables(claimed: int, tables: bytes) -> bytes:
    """An mp4 file with a moov box that is compressed."""
    box = lambda kind, data: struct.pack(">I4s", len(data) + 8, kind) + data  # noqa: E731
    packed = box(b"dcom", b"zlib") + box(b"cmvd", struct.pack(">I", claimed) + zlib.compress(tables))
    return box(b"ftyp", b"qt  \0\0\0\0") + box(b"moov", box(b"cmov", packed))


class TestUnpacking:
    @pytest.mark.parametrize("kind", [b"iCCP", b"zTXt"])
    def test_colours_and_texts_of_grey_pixel(self, kind: bytes) -> None:
        small, half = (kind, b"a\0\0" + zlib.compress(bytes(1000))), (kind, b"a\0\0" + zlib.compress(bytes(9 << 20)))
        assert len(vl.Video(grey_pixel(small, small))[0]) == 3
        assert len(vl.Video(grey_pixel((b"tEXt", bytes(1 << 20)), half))[0]) == 3
        with pytest.raises(UnsupportedError, match="a colour profile or texts of more than 16 MiB unpacked"):
            vl.Video(grey_pixel(half, half))[0]

    @pytest.mark.parametrize("container", ["mov", "avi", "apng"])
    @pytest.mark.parametrize("signature", [b"\x89PNG", b"\x8aMNG"])
    def test_colours_of_png_in_containers(self, tmp_path: Path, container: str, signature: bytes) -> None:
        path = tmp_path / f"colours.{container}"
        with av.open(str(path), "w") as target:
            stream = target.add_stream("apng" if container == "apng" else "png", rate=5)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = 8, 8, "rgb24"
            for number in range(3):
                frame = av.VideoFrame(8, 8, "rgb24")
                frame.pts = number
                target.mux(stream.encode(frame))
            target.mux(stream.encode(None))
        assert len(build_index(path)) == 3
        chunk = b"iCCP" + b"a\0\0" + zlib.compress(bytes(40 << 20))
        whole = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        if container == "apng":
            data = path.read_bytes()
            path.write_bytes(data[:33] + whole + data[33:])
        else:
            with av.open(str(path)) as source:
                packets = [bytes(packet) for packet in source.demux(video=0) if packet.size]
            with av.open(str(path), "w") as target:
                stream = target.add_stream("png", rate=5)
                assert isinstance(stream, av.VideoStream)
                stream.width, stream.height, stream.pix_fmt = 8, 8, "rgb24"
                for number, data in enumerate(packets):
                    packet = av.Packet(signature + data[4:33] + whole + data[33:])
                    packet.pts = packet.dts = number
                    packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 5), stream, True
                    target.mux(packet)
        with pytest.raises(UnsupportedError, match="a colour profile or texts of more than 16 MiB unpacked"):
            build_index(path)

    @pytest.mark.parametrize("where", ["before", "after"])
    def test_texts_of_png_are_counted(self, where: str) -> None:
        """libavcodec compares each with all others."""
        texts = [(b"tEXt", b"%d\0" % number + bytes(20)) for number in range(4000)]
        few = grey_pixel(*(texts if where == "before" else ()))
        assert len(vl.Video(few)[0]) == 3
        more = b"".join(struct.pack(">I", len(data)) + kind + data + bytes(4) for kind, data in texts[:97])
        at = len(few) - 12
        whole = few[:at] + more * (1 if where == "before" else 43) + few[at:]
        with pytest.raises(UnsupportedError, match="has more than 4096 texts"):
            vl.Video(whole)[0]

    def test_tables_of_mp4(self) -> None:
        told = "has compressed tables of 300000000 bytes, beyond the limit member_bytes=268435456"
        with pytest.raises(UnsupportedError, match=told):
            build_index(compressed_tables(300_000_000, b""))
        with pytest.raises(IndexingError, match="has compressed tables in compressed tables"):
            build_index(compressed_tables(1000, compressed_tables(5, b"")))

    def test_letters_that_look_like_compressed_tables(self, tmp_path: Path) -> None:
        path = tmp_path / "titled.mp4"
        with av.open(str(path), "w") as target:
            target.metadata["title"] = "cmvd rocks"
            stream = target.add_stream("mpeg4", rate=5)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = 64, 48
            for packet in [*stream.encode(av.VideoFrame(64, 48, "yuv420p")), *stream.encode(None)]:
                target.mux(packet)
        assert len(build_index(path)) == 1


class TestCells:
    def test_long_cells_are_read_up_to_the_limit(self, tmp_path: Path) -> None:
        usual = csv.field_size_limit()
        path = tmp_path / "rows.csv"
        path.write_text(f"path,note\na.mp4,{'x' * 200_000}\n")
        assert len(vl.VideoDataset.from_csv(path)[0].columns["note"]) == 200_000
        set_limits(cell_characters=199_999)
        told = (
            r"rows\.csv: after line 0: a value of more than 199999 characters, the limit cell_characters: .*set_limits"
        )
        with pytest.raises(ConfigurationError, match=told):
            vl.VideoDataset.from_csv(path)
        assert csv.field_size_limit() == usual


@pytest.mark.parametrize("name", ["h264_mkv", "mpeg2_ts", "mpeg4_avi", "mpeg4_mkv", "vp8_webm", "mjpeg_mkv", "h264_ts"])
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=20))
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_is_the_same_with_damage_concealed_or_not(
    sample: Callable[[str], Path], name: str, places: list[tuple[float, int]]
) -> None:
    """Concealing what damage has left takes longer than all else, so nothing is concealed where nobody looks."""
    data = bytearray(sample(name).read_bytes())
    for place, change in places:
        data[int(place * len(data))] ^= change
    outcomes = []
    for options in ({}, {"ec": "0"}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("videoloader.indexing.libav.UNCONCEALED", options)
            patch.setattr("videoloader.indexing.demuxer.UNCONCEALED", options)
            try:
                outcomes.append(pack_index(index_by_decoding(open_source(bytes(data)))))
            except vl.VideoLoaderError as error:
                outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]
