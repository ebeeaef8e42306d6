"""Clips a second from a web server with latency and a link of limited speed, beside the same files on the local disk.

The server is a process of its own on this machine: each answer begins after ``--latency`` milliseconds, and all answers
share ``--gigabits`` a second. The index store is built before; both sides decode on the CPU.

    python benchmarks/remote.py --latency 30 --gigabits 1 --clips 200
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PIECE = 64 << 10


async def _serve(folder: Path, latency: float, bytes_a_second: float) -> None:
    """Answer range requests until the process is ended; prints the port."""
    free_at = 0.0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal free_at
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                name = head.split(b" ", 2)[1].decode().lstrip("/")
                data = (folder / name).read_bytes()
                found = re.search(rb"range: bytes=(\d+)-(\d+)", head, re.IGNORECASE)
                start, stop = (int(found[1]), min(int(found[2]) + 1, len(data))) if found else (0, len(data))
                await asyncio.sleep(latency)
                writer.write(
                    f"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{stop - 1}/{len(data)}\r\n"
                    f'Content-Length: {stop - start}\r\nETag: "{name}"\r\n\r\n'.encode()
                )
                for at in range(start, stop, _PIECE):
                    piece = data[at : min(at + _PIECE, stop)]
                    now = time.monotonic()
                    free_at = max(free_at, now) + len(piece) / bytes_a_second
                    if free_at - now > 0.002:
                        await asyncio.sleep(free_at - now)
                    writer.write(piece)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def measure(paths: list[str], store: Path, clips: int, workers: int | None) -> tuple[float, str]:
    """(clips a second, the loader's statistics) of so many random clips."""
    import videoloader as vl

    data = vl.VideoDataset.from_paths(paths)
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(16, stride=4, clips=-(-clips // len(paths))),
        batch_size=8,
        transforms=[vl.RandomResizedCrop(224)],
        device="cpu",
        shuffle=True,
        num_workers=workers,
        index=store,
    )
    with loader:
        batches = iter(loader)
        for _ in range(2):  # threads, connections and decoders start
            next(batches)
        since, made = time.perf_counter(), 0
        for batch in batches:
            made += len(batch)
        return made / (time.perf_counter() - since), str(loader.stats())


def main() -> None:
    """Measure the local disk and the server in turn, and print the better round of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=30, help="milliseconds before an answer")
    parser.add_argument("--gigabits", type=float, default=1, help="of the link, a second")
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--videos", type=int, default=8)
    parser.add_argument("--footage", default="360p-h264")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="*", help="numbers of threads to try; default: the loader's")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(_serve(Path(asked.serve), asked.latency / 1e3, asked.gigabits * 1e9 / 8))
        return
    from footage import write_files

    import videoloader as vl

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = [Path(path).name for path in write_files(folder, asked.footage, asked.videos, None)]
        command = [
            sys.executable,
            __file__,
            "--serve",
            name,
            f"--latency={asked.latency}",
            f"--gigabits={asked.gigabits}",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
                places = {"local": [str(folder / each) for each in names], "remote": [url + each for each in names]}
                for place, paths in places.items():
                    vl.build_store(paths, folder / f"{place}.db")
                for workers in asked.workers or [None]:
                    best: dict[str, tuple[float, str]] = {place: (0.0, "") for place in places}
                    for _ in range(asked.rounds):
                        for place, paths in places.items():
                            best[place] = max(best[place], measure(paths, folder / f"{place}.db", asked.clips, workers))
                    for place, (speed, stats) in best.items():
                        print(f"{workers or 'default'} workers, {place}: {speed:.1f} clips/s\n{stats}")
                    print(f"remote / local: {best['remote'][0] / best['local'][0]:.2f}\n")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
