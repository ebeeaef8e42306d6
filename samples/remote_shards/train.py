"""Train on videos in tar archives on a web server, without unpacking or downloading them whole.

python samples/remote_shards/train.py                                   # starts a server on this machine
python samples/remote_shards/train.py http://host/train-0000.tar …      # your own shards, with .cls labels
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from torch import nn

import videoloader as vl

sys.path.insert(0, str(Path(__file__).parents[1]))
from make_videos import write_dataset


def write_shards(folder: Path, videos_per_class: int, shards: int = 2) -> list[str]:
    """Write tar archives in the layout of WebDataset: ``00.mp4`` beside ``00.cls``, the number of its class."""
    paths = write_dataset(folder / "videos", videos_per_class, ("down", "up", "growing"), [(160, 120)])
    classes = sorted({path.parent.name for path in paths})
    for shard in range(shards):
        with tarfile.open(folder / f"train-{shard:04}.tar", "w") as archive:
            for number, path in list(enumerate(paths))[shard::shards]:
                archive.add(path, f"{number:04}{path.suffix}")
                label = str(classes.index(path.parent.name)).encode()
                member = tarfile.TarInfo(f"{number:04}.cls")
                member.size = len(label)
                archive.addfile(member, io.BytesIO(label))
    return [f"train-{shard:04}.tar" for shard in range(shards)]


class Ranges(SimpleHTTPRequestHandler):
    """Python's own file server with support for byte ranges, which buckets and real servers have."""

    protocol_version = "HTTP/1.1"
    sent = 0

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1 if asked and asked[2] else len(content), len(content))
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - begin))
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[begin:end])
        Ranges.sent += end - begin

    def log_message(self, *told: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder's files while the context lasts; gives their URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on videos in tar archives on a web server.")
    parser.add_argument("shards", nargs="*", help="URLs of tar archives")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--videos", type=int, default=12, help="videos of each of three classes to write if no shards are given"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)

    folder = Path("shards")
    folder.mkdir(exist_ok=True)
    with nullcontext("") if args.shards else serving(folder) as url:
        shards = args.shards or [f"{url}/{name}" for name in write_shards(folder, args.videos)]
        data = vl.VideoDataset.from_tars(shards)
        report = data.build_store(folder / "index.db")
        print(f"{len(data)} videos in {len(shards)} shards, {report.indexed} indexed")
        loader = vl.VideoLoader(
            data,
            vl.RandomWindow(4, stride=2),
            batch_size=6,
            device=args.device,
            # Threads wait for bytes most of the time, so there may be more of them than cores.
            num_workers=8,
            index=folder / "index.db",
            transforms=[vl.Resize((32, 32)), vl.ToFloat()],
            shuffle=True,
            # A broken or missing file does not stop the training.
            on_error="replace",
        )
        model = nn.Sequential(nn.Flatten(), nn.Linear(4 * 3 * 32 * 32, 32), nn.ReLU(), nn.Linear(32, data.num_classes))
        model.to(args.device)
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(args.epochs):
            losses = []
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch.frames), batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f}")
        if not args.shards:
            total = sum(path.stat().st_size for path in folder.glob("*.tar"))
            print(f"the shards hold {total / 1e6:.2f} MB, {Ranges.sent / 1e6:.2f} MB were sent in {args.epochs} epochs")


if __name__ == "__main__":
    main()
