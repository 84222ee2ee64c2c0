"""Start mm as a child process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from typing import IO, List, Optional

from . import errors

READY_TIMEOUT = 120.0  # seconds until a started server is ready
LAST_OUTPUT = 4096  # bytes of its output that an exception has


def places() -> List[str]:
    """Return the paths at which mm is searched, in order, without PATH."""
    name = "mm.exe" if os.name == "nt" else "mm"
    out: List[str] = []
    if os.environ.get("MM_BIN"):
        out.append(os.environ["MM_BIN"])
    folders = [sysconfig.get_path("scripts")]
    if sys.base_prefix != sys.prefix:
        folders.append(os.path.join(sys.base_prefix, "Scripts" if os.name == "nt" else "bin"))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else os.name + "_user"
    folders.append(sysconfig.get_path("scripts", scheme=user))
    out += [os.path.join(folder, name) for folder in folders if folder]
    return out


def find(program: Optional[str] = None) -> str:
    """Return the path of mm."""
    searched = [program] if program else places()
    for path in searched:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = None if program else shutil.which("mm")
    if found:
        return found
    raise errors.ProgramNotFound(
        "mm was not found at " + ", ".join(searched) + ("" if program else " or in PATH")
        + "; install a wheel that carries it, or set MM_BIN"
    )


class Server:
    """A child process `mm serve`, which ends when its standard input is closed."""

    def __init__(self, build: str, program: Optional[str] = None, args: Optional[List[str]] = None) -> None:
        command = [find(program), "serve", "--addr", "127.0.0.1:0", "--json", "--stdin-lifeline", *(args or []), build]
        self._last = b""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout and self._process.stderr
        self._reader = threading.Thread(target=self._keep, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        self.url: str = self._ready(self._process.stdout)

    def _keep(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._last = (self._last + line)[-LAST_OUTPUT:]

    def _ready(self, stream: IO[bytes]) -> str:
        """Return the URL of the first line of output."""
        timer = threading.Timer(READY_TIMEOUT, self._process.kill)
        timer.start()
        try:
            line = stream.readline()
        finally:
            timer.cancel()
        try:
            return str(json.loads(line)["url"])
        except (ValueError, KeyError, TypeError):
            code = self.close()
            raise errors.ServerExited(
                f"mm serve ended with {code}: {self._last.decode('utf-8', 'replace').strip()}"
            ) from None

    def close(self) -> int:
        """End the server and return its exit code. It is idempotent."""
        p = self._process
        if p.stdin and not p.stdin.closed:
            p.stdin.close()
        try:
            code = p.wait(15)
        except subprocess.TimeoutExpired:
            p.kill()
            code = p.wait()
        self._reader.join(5)
        for stream in (p.stdout, p.stderr):
            if stream:
                stream.close()
        return code
