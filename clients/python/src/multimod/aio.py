"""The asynchronous client, over asyncio streams."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Optional, Tuple, Type

from . import errors, wire
from .process import Server
from .types import JSON, Event, JobEvent, Request

MAX_HEAD = 64 << 10  # bytes of a status line and its headers
MAX_BODY = 256 << 20  # bytes of an answer that is not a stream


class AsyncClient:
    """Client with coroutines and asynchronous iterators."""

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
        url, self._build = wire.choose(base_url, build)
        self.base_url: Optional[str] = url or None
        self._mm = mm
        self._server: Optional[Server] = None
        self._starting: Optional[asyncio.Lock] = None  # made in the loop that uses it
        self._key = api_key or os.environ.get("MULTIMOD_API_KEY")
        self._timeout = timeout
        self._retries = retries

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the server if the client started it. It is idempotent."""
        server, self._server = self._server, None
        if server:
            await asyncio.get_running_loop().run_in_executor(None, server.close)

    async def infer(self, req: Request) -> JSON:
        """Return the answer to a request."""
        return await self._json("POST", "/infer", wire.with_files(req, False))

    async def stream(self, req: Request) -> AsyncStream:
        """Return the events of the answer to a request."""
        return AsyncStream(await self._open("POST", "/infer", wire.with_files(req, True), True), self._timeout)

    async def run(self, req: Request) -> AsyncIterator[str]:
        """Yield the text of the answer to a request, in pieces."""
        async with await self.stream(req) as events:
            async for e in events:
                if e.type == "text":
                    yield e.text

    async def chat(self, messages: List[JSON], **options: Any) -> JSON:
        """Return a chat completion of the OpenAI endpoint."""
        return await self._json("POST", "/v1/chat/completions", {"messages": messages, **options})

    async def embed(self, texts: List[str], **options: Any) -> JSON:
        """Return the embeddings of texts from the OpenAI endpoint."""
        return await self._json("POST", "/v1/embeddings", {"input": texts, **options})

    async def models(self) -> JSON:
        """Return the builds of the server."""
        return await self._json("GET", "/v1/models", None)

    async def assemble(self, graph: str, **options: Any) -> JSON:
        """Start a job that composes the build of a graph of the server, and return it."""
        return await self._json("POST", "/assemble", {"graph": graph, **options})

    async def evaluate(self, tasks: List[str], **options: Any) -> JSON:
        """Start a job that asks a build the tasks of a suite of the server, and return it."""
        return await self._json("POST", "/evaluate", {"tasks": tasks, **options})

    async def job(self, id: str) -> JSON:
        """Return a job."""
        return await self._json("GET", wire.job_path(id), None)

    async def cancel(self, id: str) -> JSON:
        """Cancel a job, or drop one that has ended, and return it."""
        return await self._json("DELETE", wire.job_path(id), None)

    async def watch(self, id: str, after: int = 0) -> AsyncIterator[JobEvent]:
        """Yield the events of a job after a number until it ends; a broken stream is resumed."""
        broken = 0
        while True:
            try:
                async for e in self._watch(id, after):
                    after, broken = e.number, 0
                    yield e
                    if e.type == "done":
                        return
                return  # the job had ended, and its last event was seen
            except errors.ConnectionFailed:
                broken += 1
                if broken > self._retries:
                    raise
                await asyncio.sleep(wire.wait(broken, None))

    async def _watch(self, id: str, after: int) -> AsyncIterator[JobEvent]:
        answer = await self._open("GET", wire.job_path(id) + "/events", None, True, {"Last-Event-ID": str(after)})
        parser = wire.Events()
        try:
            while answer.status != 204:
                data = await answer.read(self._timeout)
                for name, text in parser.feed(data, final=not data):
                    yield wire.job_event(name, text, parser.last_id)
                if not data:
                    raise errors.ConnectionFailed("the stream ended before the job")
        finally:
            answer.close()

    async def _where(self) -> wire.Address:
        if self._starting is None:
            self._starting = asyncio.Lock()
        async with self._starting:
            if self.base_url is None:
                loop = asyncio.get_running_loop()
                server = await loop.run_in_executor(None, Server, self._build, self._mm)
                self._server, self.base_url = server, server.url
        return wire.Address(self.base_url)

    async def _json(self, method: str, path: str, body: Optional[JSON]) -> JSON:
        answer = await self._open(method, path, body, False)
        try:
            doc = json.loads(await answer.all(self._timeout, MAX_BODY))
        except ValueError as e:
            raise errors.ConnectionFailed(f"reading the answer: {e}") from e
        finally:
            answer.close()
        if not isinstance(doc, dict):
            raise errors.ConnectionFailed("the answer is not a JSON object")
        return doc

    async def _open(
        self, method: str, path: str, body: Optional[JSON], stream: bool, more: Optional[Dict[str, str]] = None
    ) -> Answer:
        data = b"" if body is None else wire.encode(body)
        address = await self._where()
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                connection = await self._connect(address)
            except OSError as e:
                if last:
                    raise errors.ConnectionFailed(f"{self.base_url}: {e}") from e
                await asyncio.sleep(wire.wait(attempt, None))
                continue
            answer = await self._send(connection, address, method, path, data, {**wire.headers(self._key, stream), **(more or {})})
            if answer.status < 300:
                return answer
            try:
                text = await answer.all(self._timeout, 1 << 20)
            finally:
                answer.close()
            if last or answer.status not in wire.RETRIED:
                raise wire.failure(answer.status, text, answer.headers.get("x-request-id"))
            await asyncio.sleep(wire.wait(attempt, answer.headers.get("retry-after")))
        raise AssertionError("unreachable")

    async def _connect(self, a: wire.Address) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context() if a.tls else None
        try:
            return await asyncio.wait_for(
                asyncio.open_connection(a.host, a.port, ssl=context, limit=MAX_HEAD), wire.CONNECT_TIMEOUT
            )
        except asyncio.TimeoutError as e:  # not an OSError before Python 3.11
            raise ConnectionError("no connection in time") from e

    async def _send(
        self,
        connection: Tuple[asyncio.StreamReader, asyncio.StreamWriter],
        a: wire.Address,
        method: str,
        path: str,
        data: bytes,
        more: Dict[str, str],
    ) -> Answer:
        """Send a request once: the server may have acted on it even if no answer comes."""
        reader, writer = connection
        fields = {**more, "Host": a.authority, "Content-Length": str(len(data)), "Connection": "close"}
        head = f"{method} {a.path}{path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n"
        try:
            writer.write(head.encode("latin-1") + data)
            await writer.drain()
            status, fields = await asyncio.wait_for(_head(reader), self._timeout)
            return Answer(status, fields, reader, writer)
        except (asyncio.TimeoutError, OSError) as e:
            writer.close()
            raise errors.ConnectionFailed(f"{self.base_url}: {e!r}") from e
        except BaseException:
            writer.close()
            raise


async def _head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str]]:
    """Read a status line and headers; interim answers (1xx) are skipped."""
    while True:
        try:
            raw = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
            raise errors.ConnectionFailed(f"invalid HTTP answer: {e!r}") from e
        first, *rest = raw.decode("latin-1").split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise errors.ConnectionFailed(f"invalid HTTP status line {first[:80]!r}")
        status = int(parts[1])
        if status >= 200:
            return status, {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in rest) if k}


class Answer:
    """An HTTP answer whose body is read in pieces."""

    def __init__(
        self, status: int, headers: Dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader
        self._writer = writer
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = int(length) if length is not None and length.isdigit() and not self._chunked else None
        self._chunk = 0  # bytes left of the present chunk
        self._ended = False

    def close(self) -> None:
        """Close the connection. It is idempotent."""
        self._writer.close()

    async def read(self, timeout: float) -> bytes:
        """Return the next bytes of the body, b"" at its end."""
        try:
            return await asyncio.wait_for(self._next(), timeout)
        except asyncio.TimeoutError as e:
            raise errors.ConnectionFailed("no event in time") from e
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as e:
            raise errors.ConnectionFailed(f"the stream broke: {e!r}") from e

    async def all(self, timeout: float, limit: int) -> bytes:
        """Return the rest of the body."""
        out = bytearray()
        while True:
            data = await self.read(timeout)
            if not data:
                return bytes(out)
            out += data
            if len(out) > limit:
                raise errors.ConnectionFailed(f"an answer of more than {limit} bytes")

    async def _next(self) -> bytes:
        if self._ended:
            return b""
        if self._chunked:
            return await self._next_chunk()
        data = await self._reader.read(1 << 16 if self._left is None else min(1 << 16, self._left))
        if self._left is not None:
            self._left -= len(data)
            if not data and self._left:
                raise ConnectionError("the body is shorter than its Content-Length")
        self._ended = not data
        return data

    async def _next_chunk(self) -> bytes:
        if self._chunk == 0:
            line = await self._reader.readuntil(b"\r\n")
            self._chunk = int(line.split(b";")[0].strip(), 16)
            if self._chunk == 0:
                self._ended = True
                return b""
        data = await self._reader.read(min(1 << 16, self._chunk))
        if not data:
            raise ConnectionError("the connection was closed inside a chunk")
        self._chunk -= len(data)
        if self._chunk == 0:
            await self._reader.readexactly(2)
        return data


class AsyncStream:
    """The events of an answer. Closing it before its end cancels the request."""

    def __init__(self, answer: Answer, timeout: float) -> None:
        self._answer = answer
        self._timeout = timeout
        self._events = self._read()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def close(self) -> None:
        """Close the connection. It is idempotent."""
        self._answer.close()

    async def _read(self) -> AsyncIterator[Event]:
        parser = wire.Events()
        try:
            while True:
                data = await self._answer.read(self._timeout)
                for name, text in parser.feed(data, final=not data):
                    e = wire.event(name, text)
                    if e is not None:
                        yield e
                        if e.type == "done":
                            return
                if not data:
                    raise errors.ConnectionFailed("the stream ended before the answer was complete")
        finally:
            self.close()
