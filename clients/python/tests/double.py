"""A server double that answers as a script says."""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import Any, Callable, List


class Double:
    """An HTTP server whose POST handler is a function of (double, handler)."""

    def __init__(self, answer: Callable[["Double", http.server.BaseHTTPRequestHandler], None]) -> None:
        double = self
        self.bodies: List[Any] = []
        self.headers: List[Any] = []
        self.broken = threading.Event()  # the client closed a stream

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                double.headers.append(dict(self.headers))
                double.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer(double, self)
                self.close_connection = True

            def do_GET(self) -> None:
                double.headers.append(dict(self.headers))
                double.bodies.append(None)
                answer(double, self)
                self.close_connection = True

            do_DELETE = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self) -> "Double":
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


def as_json(status: int, doc: Any, **headers: str) -> Callable[[Double, http.server.BaseHTTPRequestHandler], None]:
    def answer(_: Double, h: http.server.BaseHTTPRequestHandler) -> None:
        data = json.dumps(doc).encode()
        h.send_response(status)
        for k, v in headers.items():
            h.send_header(k.replace("_", "-"), v)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data)

    return answer


def as_events(*pieces: bytes, pause: float = 0.0) -> Callable[[Double, http.server.BaseHTTPRequestHandler], None]:
    """Send pieces as chunks; the last chunk is sent only if no piece is b""."""

    def answer(double: Double, h: http.server.BaseHTTPRequestHandler) -> None:
        h.send_response(200)
        h.send_header("Content-Type", "text/event-stream")
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        try:
            for p in pieces:
                if not p:
                    return
                h.wfile.write(b"%x\r\n%s\r\n" % (len(p), p))
                h.wfile.flush()
                time.sleep(pause)
            h.wfile.write(b"0\r\n\r\n")
        except OSError:
            double.broken.set()

    return answer
