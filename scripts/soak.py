"""Keeps the queue of an mm serve full, with clients that leave, and checks what remains.

  soak.py MM MODEL MINUTES [FLAG…]

Further FLAGs are those of mm serve, such as --kv-memory 40M, which makes answers wait and be
computed again. Requests are short and long texts that begin alike, plain, streamed, several
choices, and JSON of a schema. Every complete greedy answer must equal the text of its prompt alone; memory, threads and open
files of the server must be flat; nothing may run at the end.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

MM, MODEL, MINUTES, FLAGS = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]
CLIENTS, PARALLEL, QUEUE, TOKENS = 32, 4, 16, 48
PROMPTS = ["Once upon a time", "The little dog", "One day, a girl", "What is 12 plus 7?", "A big red ball", "Tom and Mia", "In the garden", "The sun"]
PROMPTS += [f"{p} number {i}" for p in PROMPTS for i in range(3)]
PROMPTS += [f"{p} sat in the garden. " * n + "And then?" for p in PROMPTS[:4] for n in (20, 40, 41)]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "animal", "schema": {
    "type": "object", "required": ["name", "legs"], "additionalProperties": False,
    "properties": {"name": {"enum": ["dog", "cat", "bird"]}, "legs": {"type": "integer", "minimum": 0, "maximum": 9}}}}}


def body(prompt, **more):
    return json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": TOKENS, "temperature": 0, **more})


class Server:
    def __init__(self):
        home = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [MM, "serve", MODEL, "--addr", "127.0.0.1:0", "--json", "--quiet", "--parallel", str(PARALLEL), "--queue", str(QUEUE), *FLAGS],
            stdout=subprocess.PIPE, env={**os.environ, "MM_HOME": home}, text=True)
        self.addr = json.loads(self.process.stdout.readline())["addr"]
        while self.get("/ready")[0] != 200:
            time.sleep(0.05)

    def connect(self):
        return http.client.HTTPConnection(self.addr, timeout=120)

    def get(self, path):
        c = self.connect()
        c.request("GET", path)
        r = c.getresponse()
        out = r.status, r.read().decode()
        c.close()
        return out

    def usage(self):
        """Returns resident MiB, threads and open files."""
        status = dict(line.split(":", 1) for line in open(f"/proc/{self.process.pid}/status"))
        return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(os.listdir(f"/proc/{self.process.pid}/fd"))


def ask(c, text):
    c.request("POST", "/v1/chat/completions", text, {"Content-Type": "application/json"})
    return c.getresponse()


def events(r):
    for line in r:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


def one(server, rng, alone):
    """Sends a request and returns what it became."""
    prompt = rng.choice(PROMPTS)
    kind = rng.choice(["plain", "stream", "stream", "choices", "schema", "leave", "leave", "hang up"])
    c = server.connect()
    try:
        if kind == "hang up":
            ask_text = body(prompt)
            c.putrequest("POST", "/v1/chat/completions")
            c.putheader("Content-Type", "application/json")
            c.putheader("Content-Length", str(len(ask_text)))
            c.endheaders(ask_text.encode())
            time.sleep(rng.random() / 50)
            return kind
        more = {"response_format": SCHEMA} if kind == "schema" else {}
        r = ask(c, body(prompt, **{"stream": kind in ("stream", "leave"), "n": 2 if kind == "choices" else 1}, **more))
        if r.status == 429:
            r.read()
            time.sleep(0.05 * rng.random())
            return "429"
        if r.status != 200:
            return f"status {r.status}: {r.read()[:200]}"
        if kind == "leave":
            stop = rng.randrange(1, TOKENS)
            for i, _ in enumerate(events(r)):
                if i == stop:
                    break
            return kind
        if kind == "stream":
            text = ""
            for e in events(r):
                if "error" in e:
                    return f"event {e}"
                text += e["choices"][0]["delta"].get("content") or ""
            texts = [text]
        else:
            texts = [one["message"]["content"] for one in json.load(r)["choices"]]
        want = alone[prompt, kind == "schema"]
        return kind if all(t == want for t in texts) else f"different: {prompt!r}: {texts!r}, alone {want!r}"
    finally:
        c.close()


def main():
    server = Server()
    try:
        soak(server)
    finally:
        server.process.kill()


def soak(server):
    alone = {}
    for prompt in PROMPTS:
        for schema in (False, True):
            c = server.connect()
            r = json.load(ask(c, body(prompt, **({"response_format": SCHEMA} if schema else {}))))
            if "error" in r:
                sys.exit(f"{prompt!r} alone: {r}")
            alone[prompt, schema] = r["choices"][0]["message"]["content"]
            c.close()
    idle = server.usage()
    counts, lock, end = {}, threading.Lock(), time.monotonic() + 60 * MINUTES

    def client(seed):
        rng = random.Random(seed)
        while time.monotonic() < end:
            try:
                what = one(server, rng, alone)
            except Exception as e:  # reported below
                what = f"fault {e!r}"
            with lock:
                counts[what] = counts.get(what, 0) + 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for t in threads:
        t.start()
    samples = []
    while time.monotonic() < end:
        time.sleep(0.5)
        samples.append(server.usage())
    for t in threads:
        t.join()
    for _ in range(100):
        metrics = server.get("/metrics")[1]
        if "mm_requests_running 0\n" in metrics and "mm_requests_waiting 0\n" in metrics and server.usage()[2] <= idle[2] + 2:
            break
        time.sleep(0.1)
    after = server.usage()
    server.process.terminate()
    code = server.process.wait(timeout=30)

    known = {"plain", "stream", "choices", "schema", "leave", "hang up", "429"}
    third = len(samples) // 3
    peak = [max(s[i] for s in samples[third:2 * third]) for i in range(3)]
    late = [max(s[i] for s in samples[2 * third:]) for i in range(3)]
    print({k: v for k, v in sorted(counts.items()) if k in known})
    print("        MiB  threads  files")
    for name, u in (("idle", idle), ("middle", peak), ("late", late), ("after", after)):
        print(f"{name:7}{u[0]:4.0f}{u[1]:9}{u[2]:7}")
    faults = [f"{n} × {k}" for k, n in counts.items() if k not in known]
    if late[0] > 1.05 * peak[0] + 4:
        faults.append(f"memory grows: {peak[0]:.0f} to {late[0]:.0f} MiB")
    if after[2] > idle[2] + 2 or "mm_requests_running 0\n" not in metrics:
        faults.append(f"{after[2]} files are open, {idle[2]} before")
    if counts.get("429", 0) == 0:
        faults.append("the queue was never full")
    if code != 0:
        faults.append(f"exit status {code}")
    for f in faults[:20]:
        print("FAIL ", f)
    sys.exit(bool(faults))


main()
