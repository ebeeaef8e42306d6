"""Files of a folder that lack what decoders remember of others."""

from __future__ import annotations

import pytest
import torch
from image_files import encoded, picture, without

import videoloader as vl
from videoloader.indexing.bitstream.jpeg import HUFFMAN, QUANTIZATION


@pytest.mark.parametrize(
    "odd", ["no palette", "gray after palettes", "no quantization", "one quantization", "no huffman", "a comment"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_each_file_of_a_folder_is_decoded_as_if_it_were_alone(tmp_path, odd, threads, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    images = [picture(number) for number in range(12)]
    if odd == "no palette":
        files = [encoded(image.quantize(16 + number), "PNG") for number, image in enumerate(images)]
        at = files[5].index(b"PLTE") - 4
        files[5] = files[5][:at] + files[5][at + 12 + int.from_bytes(files[5][at : at + 4], "big") :]
    elif odd == "gray after palettes":
        files = [encoded(image.quantize(16 + number), "TIFF") for number, image in enumerate(images)]
        files[5] = encoded(images[5].convert("L"), "TIFF")
    else:
        files = [encoded(image, "JPEG", quality=30 + 5 * number, optimize=True) for number, image in enumerate(images)]
        chroma = files[5].index(b"\xff\xdb\0\x43\x01")
        files[5] = {
            "no quantization": without(files[5], (QUANTIZATION,)),
            "one quantization": files[5][:chroma] + files[5][chroma + 69 :],
            "no huffman": without(files[5], (HUFFMAN,)),
            "a comment": encoded(images[5], "JPEG", comment=b"CS=ITU601"),
        }[odd]
    ending = {"no palette": "png", "gray after palettes": "tiff"}.get(odd, "jpg")
    for number, file in enumerate(files):
        (tmp_path / f"{number:02}.{ending}").write_bytes(file)
    alone = torch.stack([vl.Video(path, device="cpu")[0] for path in sorted(tmp_path.iterdir())])
    folder = vl.Video(tmp_path, device="cpu")
    assert torch.equal(folder[:], alone)
    assert torch.equal(torch.stack([*folder.stream()]), alone)
    assert torch.equal(folder.read([4, 5, 6, 4]).frames, alone[[4, 5, 6, 4]])
