import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { Client, StatusError } from "../dist/index.js";

const request = { inputs: [{ type: "text", text: "Hello" }] };

// double runs fn with a client of a server that answers with handler.
async function double(handler, fn) {
  const server = createServer(handler).listen(0, "127.0.0.1");
  await new Promise((ok) => server.once("listening", ok));
  try {
    await fn(new Client({ baseUrl: `http://127.0.0.1:${server.address().port}/v1`, apiKey: "k" }));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const answer = 'event: text\ndata: {"text":"h\u00e9 "}\n\n: ping\n\nevent: text\r\ndata: {"text":\r\ndata: "\u{1F30D}"}\r\n\r\nevent: done\ndata: {"text":"h\u00e9 \u{1F30D}","stop":"end"}\n\n';

test("events at every split", async () => {
  const whole = Buffer.from(answer);
  for (let at = 1; at < whole.length; at += 7) {
    await double((_, res) => { res.write(whole.subarray(0, at)); setTimeout(() => res.end(whole.subarray(at)), 2); }, async (client) => {
      let text = "", last;
      for await (const e of client.stream(request)) { if (e.type === "text") text += e.text; last = e; }
      assert.equal(text, "h\u00e9 \u{1F30D}");
      assert.equal(last.stop, "end");
    });
  }
});

test("a cut stream is an error", () => double((_, res) => res.end(answer.slice(0, 40)), async (client) => {
  await assert.rejects(async () => { for await (const _ of client.run(request)); }, /before the answer was complete/);
}));

test("an error in a stream", () => double((_, res) => res.end('event: error\ndata: {"error":{"message":"too long","code":"c"}}\n\n'), async (client) => {
  await assert.rejects(async () => { for await (const _ of client.run(request)); }, (e) => e instanceof StatusError && e.code === "c" && e.status === 0);
}));

test("a refusal", () => double((_, res) => { res.writeHead(429); res.end('{"error":{"message":"full","code":"queue_full"}}'); }, async (client) => {
  await assert.rejects(client.infer(request), (e) => e instanceof StatusError && e.status === 429 && e.code === "queue_full");
}));

test("leaving the loop cancels the request", async () => {
  let closed;
  const gone = new Promise((ok) => { closed = ok; });
  await double((_, res) => {
    res.on("close", closed);
    res.write(answer.slice(0, 40));
  }, async (client) => {
    for await (const _ of client.run(request)) break;
    await gone;
  });
});

test("a broken stream of a job is resumed", async () => {
  const seen = [];
  await double((req, res) => {
    seen.push(req.headers["last-event-id"]);
    if (seen.length === 1) return res.end('event: state\nid: 1\ndata: {"state":"queued"}\n\n');
    res.end('event: done\nid: 2\ndata: {"state":"succeeded"}\n\n');
  }, async (client) => {
    const got = [];
    for await (const e of client.watch("job_1")) got.push([e.number, e.type, e.data.state]);
    assert.deepEqual(got, [[1, "state", "queued"], [2, "done", "succeeded"]]);
    assert.deepEqual(seen, ["0", "1"]);
  });
});

test("an unknown job is not tried again", async () => {
  let n = 0;
  await double((_, res) => { n++; res.writeHead(404); res.end('{"error":{"message":"unknown","code":"unknown_job"}}'); }, async (client) => {
    await assert.rejects(async () => { for await (const _ of client.watch("x")); }, (e) => e instanceof StatusError && e.code === "unknown_job");
    assert.equal(n, 1);
  });
});

test("jobs are started and cancelled", async () => {
  const seen = [];
  await double((req, res) => { seen.push(`${req.method} ${req.url}`); res.writeHead(202); res.end('{"id":"job_1"}'); }, async (client) => {
    assert.equal((await client.assemble({ graph: "a" })).id, "job_1");
    await client.evaluate({ tasks: ["t"] });
    await client.cancel("a/b");
    assert.deepEqual(seen, ["POST /assemble", "POST /evaluate", "DELETE /jobs/a%2Fb"]);
  });
});

test("a real server", { skip: !(process.env.MM_BIN && process.env.MULTIMOD_BUILD) && "no MM_BIN and MULTIMOD_BUILD" }, async () => {
  const server = spawn(process.env.MM_BIN, ["serve", "--addr", "127.0.0.1:0", "--json", "--quiet", "--stdin-lifeline", process.env.MULTIMOD_BUILD], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const line = await new Promise((ok) => createInterface({ input: server.stdout }).once("line", ok));
    const client = new Client({ baseUrl: JSON.parse(line).url });
    const body = { ...request, preferences: { max_tokens: 16 } };
    const whole = await client.infer(body);
    let text = "";
    for await (const piece of client.run(body)) text += piece;
    assert.ok(whole.text);
    assert.equal(text, whole.text);
    const { data, error } = await client.api.GET("/v1/models");
    assert.equal(error, undefined);
    assert.equal(data.object, "list");
  } finally {
    server.stdin.end();
    await new Promise((ok) => server.once("exit", ok));
  }
});
