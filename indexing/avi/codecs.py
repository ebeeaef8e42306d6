"""Map four-character codes of AVI to codecs, and tell which frames are shown."""

from __future__ import annotations

# Codes of libavcodec's decoders, case-insensitive. MPEG-4 part 2 alone has about fifty.
_CODES = {
    "mpeg4": "FMP4 DIVX DX50 XVID MP4S M4S2 ZMP4 DIV1 BLZ0 MP4V SEDG RMP4 3IV2 WAWV FFDS FVFW DCOD MVXM PM4V SMP4 "
    "DXGM VIDM M4T3 HDX4 DM4V DMK2 DYM4 DIGI EPHV EM4A M4CC SN40 VSPX ULDX SIPP SM4V XVIX DREX PLV1 MNM4 GTM4",
    "h264": "H264 X264 AVC1 DAVC V264",
    "mjpeg": "MJPG DMB1 JPEG IJPG CJPG AVI1 AVI2 MMJP",
    "msmpeg4v3": "MP43 DIV3 MPG3 DIV5 DIV6 DIV4 DVX3 AP41 COL1 COL0",
    "msmpeg4v2": "MP42 DIV2",
    "wmv1": "WMV1",
    "wmv2": "WMV2",
    "ffv1": "FFV1",
    "huffyuv": "HFYU",
    "ffvhuff": "FFVH",
    "utvideo": "ULRA ULRG ULY0 ULY2 ULY4 ULH0 ULH2 ULH4",
    "magicyuv": "MAGY M8RG M8RA M8G0 M8Y0 M8Y2 M8Y4 M8YA",
    "png": "MPNG",
    "rawvideo": "I420 IYUV YUY2 YUYV UYVY YV12 YV16 Y800 NV12",
    "cinepak": "CVID",
    "indeo4": "IV41",
}
_CODECS = {code.encode(): codec for codec, codes in _CODES.items() for code in codes.split()}
_RAW = b"\0\0\0\0"
_MPEG4_NUMBERS = {b"\4\0\0\0", b"\4\0\0\x10"}


def codec_of(compression: bytes, bits: int) -> str:
    """Return libavcodec's decoder for a ``biCompression`` and bits per pixel; empty if it is unknown here."""
    if bits <= 8 and (compression == _RAW or compression.upper() in (b"CVID", b"MPNG")):
        return ""  # with a palette, which may change from frame to frame
    if compression == _RAW:
        return "rawvideo"
    if compression in _MPEG4_NUMBERS:
        return "mpeg4"
    return _CODECS.get(compression.upper(), "")


def is_shown_when_decoded(codec: str, head: bytes) -> bool:
    """Whether a frame is shown when it is decoded. By their type, some of Indeo 4 are not, as libavcodec knows it."""
    fields = int.from_bytes(head[:3], "little")
    return codec != "indeo4" or (fields & 0x3FFFF == 0x3FFF8 and fields >> 18 & 7 in (0, 1, 2, 4))
