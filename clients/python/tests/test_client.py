"""Tests of the clients against a server double, and against mm if MM_BIN and MULTIMOD_BUILD are set."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import sys
import tempfile
import unittest
from typing import Any, List
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
import multimod  # noqa: E402
from double import Double, as_events, as_json  # noqa: E402
from multimod import process, wire  # noqa: E402

TEXT = "héllo 🌍"
ANSWER = [
    b"\xef\xbb\xbf: comment\n\n",
    b'event: text\ndata: {"text": "h\xc3\xa9llo "}\n\n',
    b'event: text\r\ndata: {"text":\r\ndata: "\xf0\x9f',
    b'\x8c\x8d"}\r\n\r\ndata: null\n\n',
    b'event: output\ndata: {"modality": "image", "media_type": "image/png", "data": "AAEC"}\n\n',
    b'event: done\ndata: {"text": "h\xc3\xa9llo \xf0\x9f\x8c\x8d", "stop": "end"}\n\n',
]


def request(**more: Any) -> Any:
    return {"inputs": [{"type": "text", "text": "Hello"}], **more}


async def collect(client: multimod.AsyncClient, req: Any) -> List[Any]:
    async with await client.stream(req) as events:
        return [e async for e in events]


JOB = {"id": "job_1", "state": "succeeded", "result": {"digest": "sha256:1"}, "error": None}


class Jobs(unittest.TestCase):
    def watched(self, url: str) -> List[List[Any]]:
        sync = list(multimod.Client(url).watch("job_1"))

        async def run() -> List[Any]:
            async with multimod.AsyncClient(url) as client:
                return [e async for e in client.watch("job_1")]

        return [sync, asyncio.run(run())]

    def test_resume(self) -> None:
        """A broken stream is resumed after the last event that was seen."""

        def answer(d: Double, h: Any) -> None:
            first = h.headers["Last-Event-ID"] == "0"
            done = b"event: done\nid: 3\ndata: " + json.dumps(JOB).encode() + b"\n\n"
            as_events(b'event: state\nid: 1\ndata: {"state": "queued"}\n\nevent: step\nid: 2\ndata: {"step": "check"}\n\n', b"")(d, h) if first else as_events(done)(d, h)

        with Double(answer) as d, mock.patch.object(wire, "wait", lambda *_: 0.0):
            for got in self.watched(d.url):
                self.assertEqual([(e.number, e.type) for e in got], [(1, "state"), (2, "step"), (3, "done")])
                self.assertEqual(got[2].data["result"]["digest"], "sha256:1")
            self.assertEqual([h["Last-Event-ID"] for h in d.headers], ["0", "2", "0", "2"])

    def test_seen(self) -> None:
        """A job whose last event was seen has no content."""
        with Double(lambda _, h: (h.send_response(204), h.end_headers())) as d:  # type: ignore[arg-type,return-value]
            for got in self.watched(d.url):
                self.assertEqual(got, [])

    def test_gives_up(self) -> None:
        with Double(as_events(b": ping\n\n", b"")) as d, mock.patch.object(wire, "wait", lambda *_: 0.0):
            with self.assertRaises(multimod.ConnectionFailed):
                self.watched(d.url)
            self.assertEqual(len(d.headers), 3)

    def test_calls(self) -> None:
        with Double(as_json(202, JOB)) as d:
            client = multimod.Client(d.url)
            self.assertEqual(client.assemble("a.graph.yaml", target="laptop"), JOB)
            self.assertEqual(client.evaluate(["tasks"], limit=3), JOB)
            self.assertEqual(d.bodies, [{"graph": "a.graph.yaml", "target": "laptop"}, {"tasks": ["tasks"], "limit": 3}])
            self.assertEqual(client.job("job_1"), JOB)
            self.assertEqual(client.cancel("a/b"), JOB)


class Streams(unittest.TestCase):
    def both(self, url: str, req: Any) -> List[List[Any]]:
        with multimod.Client(url).stream(req) as events:
            sync = list(events)

        async def run() -> List[Any]:
            async with multimod.AsyncClient(url) as client:
                return await collect(client, req)

        return [sync, asyncio.run(run())]

    def test_events(self) -> None:
        with Double(as_events(*ANSWER)) as d:
            for got in self.both(d.url, request()):
                self.assertEqual([e.type for e in got], ["text", "text", "output", "done"])
                self.assertEqual(got[0].text + got[1].text, TEXT)
                self.assertEqual(got[2].data, b"\x00\x01\x02")
                self.assertEqual(got[3].answer["stop"], "end")
            self.assertTrue(d.bodies[0]["stream"])
            self.assertEqual(d.bodies[0], d.bodies[1])

    def test_every_split(self) -> None:
        whole = b"".join(ANSWER)
        for at in range(1, len(whole)):
            parser, got = wire.Events(), []
            for piece in (whole[:at], whole[at:], b""):
                got += [wire.event(*e) for e in parser.feed(piece, final=not piece)]
            self.assertEqual("".join(e.text for e in got if e and e.type == "text"), TEXT, at)

    def test_run(self) -> None:
        with Double(as_events(*ANSWER)) as d, mock.patch.dict(os.environ, {"MULTIMOD_BASE_URL": d.url}):
            with mock.patch.object(multimod, "_client", None):
                self.assertEqual("".join(multimod.run(request())), TEXT)

    def test_cut(self) -> None:
        for pieces in (ANSWER[:2], ANSWER[:2] + [b""]):
            with Double(as_events(*pieces)) as d, self.assertRaises(multimod.ConnectionFailed):
                list(multimod.Client(d.url).run(request()))
            with Double(as_events(*pieces)) as d, self.assertRaises(multimod.ConnectionFailed):
                asyncio.run(collect(multimod.AsyncClient(d.url), request()))

    def test_error_in_stream(self) -> None:
        piece = b'event: error\ndata: {"error": {"message": "too long", "code": "context_length_exceeded"}}\n\n'
        with Double(as_events(ANSWER[1], piece)) as d:
            with self.assertRaises(multimod.StatusError) as caught:
                list(multimod.Client(d.url).run(request()))
            self.assertEqual(caught.exception.code, "context_length_exceeded")
            self.assertEqual(len(d.bodies), 1)

    def test_cancel(self) -> None:
        with Double(as_events(*[ANSWER[1]] * 500, pause=0.01)) as d:
            with multimod.Client(d.url).stream(request()) as events:
                next(events)
            self.assertTrue(d.broken.wait(5))
        with Double(as_events(*[ANSWER[1]] * 500, pause=0.01)) as d:

            async def one() -> None:
                async with await multimod.AsyncClient(d.url).stream(request()) as events:
                    async for _ in events:
                        return

            asyncio.run(one())
            self.assertTrue(d.broken.wait(5))


class Requests(unittest.TestCase):
    def test_files(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".png") as f, Double(as_json(200, {"text": "a"})) as d:
            f.write(b"\x89PNG")
            f.flush()
            req = request(assets=[{"name": "tab0", "data": b"\xff"}])
            req["inputs"].append({"type": "image", "path": f.name})
            self.assertEqual(multimod.Client(d.url, api_key="k").infer(req), {"text": "a"})
            sent = d.bodies[0]["inputs"][1]
            self.assertEqual(base64.b64decode(sent["data"]), b"\x89PNG")
            self.assertNotIn("path", sent)
            self.assertEqual(d.bodies[0]["assets"][0]["data"], "/w==")
            self.assertEqual(d.headers[0]["Authorization"], "Bearer k")
            self.assertIn("path", req["inputs"][1])  # the caller's request is unchanged

    def test_statuses(self) -> None:
        for status, kind in ((400, multimod.StatusError), (401, multimod.Unauthorized), (429, multimod.RateLimited)):
            doc = {"error": {"message": "no", "code": "c", "param": "p"}}
            with Double(as_json(status, doc, X_Request_Id="r", Retry_After="0")) as d:
                for call in (
                    lambda: multimod.Client(d.url).infer(request()),
                    lambda: asyncio.run(multimod.AsyncClient(d.url).infer(request())),
                ):
                    d.bodies.clear()
                    with self.assertRaises(kind) as caught:
                        call()
                    e = caught.exception
                    self.assertEqual((e.status, e.code, e.param, e.request_id), (status, "c", "p", "r"))
                    self.assertEqual(len(d.bodies), 3 if status == 429 else 1)

    def test_no_second_request(self) -> None:
        """A request that was sent is not repeated when the answer does not come."""

        def hang_up(_: Double, h: Any) -> None:
            h.connection.shutdown(socket.SHUT_RDWR)

        with Double(hang_up) as d:
            for call in (
                lambda: multimod.Client(d.url).infer(request()),
                lambda: asyncio.run(multimod.AsyncClient(d.url).infer(request())),
            ):
                d.bodies.clear()
                with self.assertRaises(multimod.ConnectionFailed):
                    call()
                self.assertEqual(len(d.bodies), 1)

    def test_no_server(self) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{s.getsockname()[1]}"
        with mock.patch.object(wire, "wait", lambda *_: 0.0):
            with self.assertRaises(multimod.ConnectionFailed):
                multimod.Client(url).infer(request())
            with self.assertRaises(multimod.ConnectionFailed):
                asyncio.run(multimod.AsyncClient(url).infer(request()))

    def test_address(self) -> None:
        for url in ("ftp://x", "http://", ""):
            with self.assertRaises(ValueError):
                wire.Address(url)
        a = wire.Address("http://[::1]:8080/api/v1/")
        self.assertEqual((a.host, a.port, a.path, a.authority), ("::1", 8080, "/api", "[::1]:8080"))

    def test_body_values(self) -> None:
        for bad in (float("nan"), object()):
            with self.assertRaises((ValueError, TypeError)):
                wire.encode({"x": bad})


class Programs(unittest.TestCase):
    def test_order(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mm")
            with open(path, "w") as f:
                f.write("#!/bin/sh\necho broken build >&2\nexit 3\n")
            with mock.patch.dict(os.environ, {"MM_BIN": path}):
                with self.assertRaises(multimod.ProgramNotFound) as caught:
                    process.find(os.path.join(folder, "other"))
                self.assertIn(os.path.join(folder, "other"), str(caught.exception))
                os.chmod(path, 0o755)
                self.assertEqual(process.find(), path)
                if os.name == "posix":
                    with self.assertRaises(multimod.ServerExited) as exited:
                        multimod.Client(build="x")
                    self.assertIn("broken build", str(exited.exception))

    def test_none(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": ""}), mock.patch.object(process, "places", lambda: ["/nowhere/mm"]):
            with self.assertRaises(multimod.ProgramNotFound) as caught:
                process.find()
            self.assertIn("/nowhere/mm", str(caught.exception))

    def test_arguments(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            for make in (multimod.Client, multimod.AsyncClient):
                with self.assertRaises(ValueError):
                    make()
                with self.assertRaises(ValueError):
                    make("http://localhost", build="x")


@unittest.skipUnless(os.environ.get("MM_BIN") and os.environ.get("MULTIMOD_BUILD"), "skipped: no MM_BIN and MULTIMOD_BUILD")
class Real(unittest.TestCase):
    def test_server(self) -> None:
        with multimod.Client(build=os.environ["MULTIMOD_BUILD"]) as client:
            req = request(preferences={"max_tokens": 16, "temperature": 0})
            text = client.infer(req)["text"]
            self.assertTrue(text)
            self.assertEqual("".join(client.run(req)), text)
            self.assertEqual(client.models()["object"], "list")

            async def run() -> str:
                async with multimod.AsyncClient(client.base_url) as a:
                    return "".join([t async for t in a.run(req)])

            self.assertEqual(asyncio.run(run()), text)


if __name__ == "__main__":
    unittest.main()
