"""A local web server that counts requests, and can be told to misbehave."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class RangeServer:
    """The state of the server: ``requests`` lists the requested ranges, ``sent`` counts the bytes of its answers.

    ``asked`` counts all requests, including refused ones; ``stalling`` is set when it has stopped answering.

    Attributes:
        fault: ``""``; ``"no ranges"``, ``"no size"``, ``"short"`` (announces fewer bytes than the file has), ``"long"``
            (announces more), ``"wrong range"`` (sends other bytes than requested), ``"drops"`` (disconnects in the
            middle), ``"stalls"`` (stops there), ``"drips"`` (sends single bytes from there on), ``"416"`` (answers that
            every range is beyond the end), ``"416 without size"``, ``"500"``.
        refusals: what the next requests get instead of an answer: (HTTP status, headers), or None to disconnect without
            an answer.
        version: its ETag; ``weak`` says whether it is a weak one.
        before_answer: called before each answer with bytes.
    """

    files: dict[str, bytes]
    fault: str = ""
    version: str = "1"
    weak: bool = False
    refusals: list[tuple[int, dict[str, str]] | None] = field(default_factory=list)
    before_answer: Callable[[], None] = lambda: None
    url: str = ""
    requests: list[tuple[int, int]] = field(default_factory=list)
    sent: int = 0
    asked: int = 0
    stalling: threading.Event = field(default_factory=threading.Event)

    def forget(self) -> None:
        """Reset all counts."""
        self.requests, self.sent = [], 0


@contextmanager
def serve(files: dict[str, bytes], host: str = "127.0.0.1") -> Iterator[RangeServer]:
    """Serve files at ``url + name`` while the context lasts. The host may be an IPv6 address."""
    state = RangeServer(files)
    lock, stopped = threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            with lock:
                refusal = state.refusals.pop(0) if state.refusals else ()
                state.asked += 1
            if refusal is None:
                self.close_connection = True
                return
            if refusal:
                status, headers = refusal
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                return
            data = state.files.get(self.path.lstrip("/"))
            if data is None or state.fault == "500":
                self.send_response(404 if data is None else 500)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if asked is None or state.fault == "no ranges":
                start, stop = 0, len(data)
                self.send_response(200)
            else:
                start, stop = int(asked[1]), min(int(asked[2]) + 1, len(data))
                if start >= len(data) or state.fault == "416":
                    self.send_response(416)
                    if state.fault != "416 without size":
                        self.send_header("Content-Range", f"bytes */{min(start, len(data))}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                shift = 1 if state.fault == "wrong range" else 0
                size = "*" if state.fault == "no size" else len(data)
                self.send_header("Content-Range", f"bytes {start + shift}-{stop - 1 + shift}/{size}")
            with lock:
                state.requests.append((start, stop))
                state.before_answer()
            said = stop - start + {"short": -1, "long": 1}.get(state.fault, 0)
            if not (state.fault == "no size" and asked is None):
                self.send_header("Content-Length", str(said))
            self.send_header("ETag", f'{"W/" * state.weak}"{state.version}"')
            self.end_headers()
            breaks_off = state.fault in ("drops", "stalls", "drips")
            body = data[start : (start + stop) // 2] if breaks_off else data[start:stop]
            if state.fault in ("drops", "long", "short"):
                self.close_connection = True
            for at in range(0, len(body), 1 << 16):
                with lock:  # before sending: a client with its bytes may read or reset the count
                    state.sent += len(body[at : at + (1 << 16)])
                self.wfile.write(body[at : at + (1 << 16)])
            if state.fault == "stalls":
                state.stalling.set()
                stopped.wait()
            while state.fault == "drips" and not stopped.wait(0.02):
                self.wfile.write(b"x")

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, *args: object) -> None:
            pass  # disconnecting clients are part of the tests

    server = Server((host, 0), Handler)
    state.url = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
