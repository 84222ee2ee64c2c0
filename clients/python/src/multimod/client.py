"""The synchronous client."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Type

from . import errors, wire
from .process import Server
from .types import JSON, Event, JobEvent, Request


class Client:
    """A client of one server: a running one at base_url, or a started one for build.

    Without arguments it uses MULTIMOD_BASE_URL and MULTIMOD_API_KEY, or starts mm for
    MULTIMOD_BUILD. It may be used by several threads.
    """

    def __init__(
        self,
        base_url: Optional[str] = None,
        *,
        api_key: Optional[str] = None,
        build: Optional[str] = None,
        mm: Optional[str] = None,
        timeout: float = wire.EVENT_TIMEOUT,
        retries: int = wire.RETRIES,
    ) -> None:
        base_url, build = wire.choose(base_url, build)
        self._server: Optional[Server] = None
        if not base_url:
            self._server = Server(build, mm)
            base_url = self._server.url
        self.base_url = base_url
        self._address = wire.Address(base_url)
        self._key = api_key or os.environ.get("MULTIMOD_API_KEY")
        self._timeout = timeout
        self._retries = retries

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server if the client started it. It is idempotent."""
        if self._server:
            self._server.close()
            self._server = None

    def infer(self, req: Request) -> JSON:
        """Return the answer to a request."""
        return self._json("POST", "/infer", wire.with_files(req, False))

    def stream(self, req: Request) -> Stream:
        """Return the events of the answer to a request."""
        return Stream(self._open("POST", "/infer", wire.with_files(req, True), True))

    def run(self, req: Request) -> Iterator[str]:
        """Yield the text of the answer to a request, in pieces."""
        with self.stream(req) as events:
            for e in events:
                if e.type == "text":
                    yield e.text

    def chat(self, messages: List[JSON], **options: Any) -> JSON:
        """Return a chat completion of the OpenAI endpoint."""
        return self._json("POST", "/v1/chat/completions", {"messages": messages, **options})

    def embed(self, texts: List[str], **options: Any) -> JSON:
        """Return the embeddings of texts from the OpenAI endpoint."""
        return self._json("POST", "/v1/embeddings", {"input": texts, **options})

    def models(self) -> JSON:
        """Return the builds of the server."""
        return self._json("GET", "/v1/models", None)

    def assemble(self, graph: str, **options: Any) -> JSON:
        """Start a job that composes the build of a graph of the server, and return it."""
        return self._json("POST", "/assemble", {"graph": graph, **options})

    def evaluate(self, tasks: List[str], **options: Any) -> JSON:
        """Start a job that asks a build the tasks of a suite of the server, and return it."""
        return self._json("POST", "/evaluate", {"tasks": tasks, **options})

    def job(self, id: str) -> JSON:
        """Return a job."""
        return self._json("GET", wire.job_path(id), None)

    def cancel(self, id: str) -> JSON:
        """Cancel a job, or drop one that has ended, and return it."""
        return self._json("DELETE", wire.job_path(id), None)

    def watch(self, id: str, after: int = 0) -> Iterator[JobEvent]:
        """Yield the events of a job after a number until it ends; a broken stream is resumed."""
        broken = 0
        while True:
            try:
                for e in self._watch(id, after):
                    after, broken = e.number, 0
                    yield e
                    if e.type == "done":
                        return
                return  # the job had ended, and its last event was seen
            except errors.ConnectionFailed:
                broken += 1
                if broken > self._retries:
                    raise
                time.sleep(wire.wait(broken, None))

    def _watch(self, id: str, after: int) -> Iterator[JobEvent]:
        response = self._open("GET", wire.job_path(id) + "/events", None, True, {"Last-Event-ID": str(after)})
        parser = wire.Events()
        with response:
            while response.status != 204:
                try:
                    data = response.read1(1 << 16)
                except (OSError, http.client.HTTPException, ValueError) as e:
                    raise errors.ConnectionFailed(f"the stream broke: {e!r}") from e
                for name, text in parser.feed(data, final=not data):
                    yield wire.job_event(name, text, parser.last_id)
                if not data:
                    raise errors.ConnectionFailed("the stream ended before the job")

    def _json(self, method: str, path: str, body: Optional[JSON]) -> JSON:
        response = self._open(method, path, body, False)
        try:
            doc = json.loads(response.read())
        except (ValueError, http.client.HTTPException, OSError) as e:
            raise errors.ConnectionFailed(f"reading the answer: {e}") from e
        finally:
            response.close()
        if not isinstance(doc, dict):
            raise errors.ConnectionFailed("the answer is not a JSON object")
        return doc

    def _open(
        self, method: str, path: str, body: Optional[JSON], stream: bool, more: Optional[Dict[str, str]] = None
    ) -> http.client.HTTPResponse:
        """Send a request, repeat it where that is safe, and return the 2xx answer."""
        data = None if body is None else wire.encode(body)
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                connection = self._connect()
            except OSError as e:
                if last:
                    raise errors.ConnectionFailed(f"{self.base_url}: {e}") from e
                time.sleep(wire.wait(attempt, None))
                continue
            response = self._send(connection, method, path, data, {**wire.headers(self._key, stream), **(more or {})})
            if response.status < 300:
                return response
            with response:
                refusal = wire.failure(response.status, response.read(1 << 20), response.headers.get("X-Request-Id"))
                after = response.headers.get("Retry-After")
            if last or response.status not in wire.RETRIED:
                raise refusal
            time.sleep(wire.wait(attempt, after))
        raise AssertionError("unreachable")

    def _connect(self) -> http.client.HTTPConnection:
        a = self._address
        make: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        options: JSON = {"timeout": wire.CONNECT_TIMEOUT}
        if a.tls:
            make, options["context"] = http.client.HTTPSConnection, ssl.create_default_context()
        connection = make(a.host, a.port, **options)
        connection.connect()
        connection.sock.settimeout(self._timeout)
        return connection

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, data: Optional[bytes], fields: Dict[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request once: the server may have acted on it even if no answer comes."""
        headers = {**fields, "Connection": "close"}
        try:
            connection.request(method, self._address.path + path, body=data, headers=headers)
            response = connection.getresponse()
            if connection.sock:  # it stays open until the response is closed
                connection.sock.close()
            return response
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise errors.ConnectionFailed(f"{self.base_url}: {e!r}") from e


class Stream:
    """The events of an answer. Closing it before its end cancels the request."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._events = self._read()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """Close the connection. It is idempotent."""
        self._response.close()

    def _read(self) -> Iterator[Event]:
        parser = wire.Events()
        try:
            while True:
                try:
                    data = self._response.read1(1 << 16)
                except socket.timeout as e:
                    raise errors.ConnectionFailed("no event in time") from e
                except (OSError, http.client.HTTPException, ValueError) as e:
                    raise errors.ConnectionFailed(f"the stream broke: {e!r}") from e
                for name, text in parser.feed(data, final=not data):
                    e_ = wire.event(name, text)
                    if e_ is not None:
                        yield e_
                        if e_.type == "done":
                            return
                if not data:
                    raise errors.ConnectionFailed("the stream ended before the answer was complete")
        finally:
            self.close()
