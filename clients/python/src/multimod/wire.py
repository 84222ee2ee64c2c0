"""The wire form: JSON bodies, server-sent events, errors."""

from __future__ import annotations

import base64
import codecs
import json
import os
from dataclasses import fields
from importlib import metadata
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import quote, urlsplit

from . import errors
from .types import JSON, Event, JobEvent, Request

CONNECT_TIMEOUT = 5.0
EVENT_TIMEOUT = 60.0  # between events; the server sends comments while it works
RETRIES = 2
MAX_WAIT = 30.0  # seconds that a Retry-After may ask for
MAX_EVENT = 64 << 20  # bytes of one event
RETRIED = (408, 429, 503)

try:
    VERSION = metadata.version("multimod")
except metadata.PackageNotFoundError:  # used from its source
    VERSION = "0"


class Address:
    """The parts of a base URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "//" in url else "http://" + url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"base URL {url!r}: want http://HOST:PORT or https://HOST:PORT")
        self.tls: bool = parts.scheme == "https"
        self.host: str = parts.hostname
        self.port: int = parts.port or (443 if self.tls else 80)
        path = parts.path.rstrip("/")
        self.path: str = path[: -len("/v1")] if path.endswith("/v1") else path

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def choose(base_url: Optional[str], build: Optional[str]) -> Tuple[str, str]:
    """Return the URL of the server, or "" and the build to start one for."""
    if base_url and build:
        raise ValueError("base_url and build exclude each other")
    if not base_url and not build:
        base_url, build = os.environ.get("MULTIMOD_BASE_URL"), os.environ.get("MULTIMOD_BUILD")
    if base_url:
        return base_url, ""
    if build:
        return "", build
    raise ValueError("no server: set base_url or MULTIMOD_BASE_URL, or build or MULTIMOD_BUILD")


def headers(key: Optional[str], stream: bool) -> Dict[str, str]:
    """Return the headers of a request."""
    h = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if stream else "application/json",
        "User-Agent": "multimod/" + VERSION,
    }
    if key:
        h["Authorization"] = "Bearer " + key
    return h


def encode(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON; bytes become base64."""

    def default(value: object) -> str:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64.b64encode(value).decode("ascii")
        raise TypeError(f"{type(value).__name__} is not JSON")

    return json.dumps(body, ensure_ascii=False, allow_nan=False, default=default).encode("utf-8")


def with_files(req: Request, stream: bool) -> JSON:
    """Return a request in which files are read: the server opens no path of a client."""
    out: JSON = dict(req)
    out["stream"] = stream
    for key in ("inputs", "assets"):
        if key in out:
            out[key] = [_read(item) for item in out[key]]
    if "messages" in out:
        out["messages"] = [
            {**m, "parts": [_read(part) for part in m["parts"]]} if "parts" in m else m for m in out["messages"]
        ]
    return out


def _read(item: Mapping[str, Any]) -> JSON:
    out = dict(item)
    path = out.pop("path", None)
    if path is not None:
        with open(os.fspath(path), "rb") as f:
            out["data"] = f.read()
    return out


def failure(status: int, body: bytes, request_id: Optional[str]) -> errors.StatusError:
    """Return the exception for an answer that is not 2xx."""
    message, code, param = "", None, None
    try:
        doc = json.loads(body)
        e = doc.get("error", doc)
        if isinstance(e, dict):
            message, code, param = str(e.get("message") or ""), e.get("code"), e.get("param")
        else:
            message = str(e)
    except (ValueError, AttributeError):
        message = body[:500].decode("utf-8", "replace").strip()
    kind = {429: errors.RateLimited, 401: errors.Unauthorized, 403: errors.Unauthorized}.get(status, errors.StatusError)
    code = None if code is None else str(code)
    return kind(f"{status}: {message or 'no message'}", status, code, param, request_id)


def wait(attempt: int, retry_after: Optional[str]) -> float:
    """Return the seconds before an attempt: Retry-After, or 0.5 s doubled each time."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        seconds = 0.5 * 2.0**attempt
    return min(max(seconds, 0.0), MAX_WAIT)


class Events:
    """An incremental parser of server-sent events."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._name = ""
        self.last_id = ""
        self._data: List[str] = []
        self._size = 0
        self._first = True

    def feed(self, data: bytes, final: bool = False) -> Iterator[Tuple[str, str]]:
        """Yield (event, data) for each event that data completes."""
        text = self._decode(data, final)
        if self._first and text:
            text, self._first = text[1:] if text[0] == "\ufeff" else text, False
        self._rest += text
        while True:
            line = self._line(final)
            if line is None:
                break
            if line == "":
                if self._data:
                    yield self._name or "message", "\n".join(self._data)
                self._name, self._data, self._size = "", [], 0
                continue
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "event":
                self._name = value
            elif field == "id":
                self.last_id = value
            elif field == "data":
                self._data.append(value)
                self._size += len(value)
        if self._size + len(self._rest) > MAX_EVENT:
            raise errors.ConnectionFailed(f"an event of more than {MAX_EVENT} characters")

    def _line(self, final: bool) -> Optional[str]:
        ends = [i for i in (self._rest.find("\n"), self._rest.find("\r")) if i >= 0]
        if not ends:
            return None
        at = min(ends)
        if self._rest[at] == "\r":
            if at + 1 == len(self._rest) and not final:
                return None  # a line feed may follow
            skip = 2 if self._rest[at + 1 : at + 2] == "\n" else 1
        else:
            skip = 1
        line, self._rest = self._rest[:at], self._rest[at + skip :]
        return line


def event(name: str, data: str) -> Optional[Event]:
    """Return an event of /infer; None for data that carries nothing."""
    if data in ("[DONE]", "null"):
        return None
    doc = json.loads(data)
    if not isinstance(doc, dict):
        return None
    if name == "error" or "error" in doc:
        e = doc.get("error", doc)
        raise errors.StatusError(str(e.get("message", e)), 0, e.get("code"), e.get("param"))
    if name == "done":
        return Event(type="done", answer=doc)
    known = {f.name for f in fields(Event)} - {"type", "answer"}
    values = {k: v for k, v in doc.items() if k in known}
    if "data" in values:
        values["data"] = base64.b64decode(values["data"])
    return Event(type=name, **values)


def job_path(id: str) -> str:
    """Return the path of a job."""
    return "/jobs/" + quote(id, safe="")


def job_event(name: str, data: str, number: str) -> JobEvent:
    """Return an event of a job."""
    doc = json.loads(data)
    if not isinstance(doc, dict) or not number.isdigit():
        raise errors.ConnectionFailed("invalid event of a job")
    return JobEvent(number=int(number), type=name, data=doc)
