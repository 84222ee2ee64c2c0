"""Runs exported pages in a headless browser and prints the results of their self-checks.

web.py CHROMEDRIVER FOLDER…: each folder is one of mm export web. It also loads files by the controls of
the page, changes a model, and looks for controls without a name. It exits with 1 if a check fails.
"""
import functools
import glob
import http.server
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib

failed = []


class Driver:
    """A session of the browser, by the WebDriver protocol."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if "on port " in line and "started successfully" in line:
                self.base = "http://127.0.0.1:" + line.rsplit(" ", 1)[1].strip(" .\n")
                break
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}, "timeouts": {"script": 600000, "pageLoad": 600000}}}})
        self.version = answer["capabilities"]["browserVersion"]
        self.base += "/session/" + answer["sessionId"]

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=900) as response:
            return json.load(response)["value"]

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def find(self, selector):
        return next(iter(self.call("POST", "/element", {"using": "css selector", "value": selector}).values()))

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def until(self, script, seconds=180):
        end = time.time() + seconds
        while time.time() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.2)
        raise TimeoutError(script)

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.process.terminate()


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def log_message(self, *args):
        pass


def served(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"


def expect(name, good, detail=""):
    if not good:
        failed.append(name)
    print(f"{'ok    ' if good else 'FAILED'} {name} {detail}")


UNNAMED = """return [...document.querySelectorAll('button,input,select,textarea,canvas,audio,a,table')].filter(e =>
  !(e.textContent.trim() && e.matches('button,a')) && !e.labels?.length && !e.ariaLabel && !e.caption && !e.getAttribute('aria-labelledby')).map(e => e.outerHTML.slice(0, 120))"""


def check(driver, folder):
    server, url = served(folder)
    driver.call("POST", "/url", {"url": url})
    driver.until("return document.documentElement.dataset.ready")
    driver.run("document.getElementById('check').click()")
    verdict = driver.until("return ['passed', 'failed'].find(v => v === document.documentElement.dataset.check)")
    rows = driver.run("return [...document.querySelectorAll('#results tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    for name, output, cosine, most, took, word in rows:
        print(f"  {name:16} {output:16} cosine {cosine:10} difference {most:10} {took:>10} {word}")
    expect(f"golden outputs of {os.path.basename(folder)}", verdict == "passed")
    inputs(driver, folder)
    expect("every control has a name", not (bad := driver.run(UNNAMED)), str(bad))
    log = [e["message"] for e in driver.call("POST", "/se/log", {"type": "browser"}) if e["level"] in ("SEVERE", "WARNING")]
    expect("no message of the browser, such as of the content security policy", not log, "; ".join(log))
    server.shutdown()


def inputs(driver, folder):
    """Sets the inputs of a function by files, and a picture where the page takes one."""
    with open(os.path.join(folder, "functions.json")) as f:
        functions = json.load(f)["functions"]
    for f in [f for f in functions if f.get("golden")][:1]:
        for i in f["inputs"]:
            choose(driver, f, i, "npy", os.path.join(folder, f["golden"]["inputs"][i["name"]]["path"]))
        expect(f"files of NumPy for {f['name']}", "Done" in submit(driver, f), "")
    for f in functions:
        i = f["inputs"][0]
        if "picture" in i.get("kinds", []) and len(f["inputs"]) == 1:
            with tempfile.NamedTemporaryFile(suffix=".png") as png:
                png.write(picture(16))
                png.flush()
                choose(driver, f, i, "picture", png.name)
                status = submit(driver, f)
            expect(f"picture for {f['name']}", "Done" in status, status)
            driver.run("const s = document.getElementById(arguments[0]); s.value = 'text'; s.dispatchEvent(new Event('change'))", f"{f['name']}.{i['name']}")
            driver.type(f"[name='{f['name']}.{i['name']}.text']", "1 2 x")
            expect("text that is not numbers is refused", "other words" in submit(driver, f))


def picture(size):
    """Returns a PNG with a red and a blue half."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = b"\0" + b"\xff\0\0" * (size // 2) + b"\0\0\xff" * (size // 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(row * size)) + chunk(b"IEND", b"")


def choose(driver, f, i, way, path):
    name = f"{f['name']}.{i['name']}"
    driver.run("const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))", name, way)
    driver.type(f"[name='{name}.{way}']", path)


def submit(driver, f):
    driver.run("document.getElementById('f.' + arguments[0]).closest('section').querySelector('form button').click()", f["name"])
    return driver.until(f"const s = document.getElementById('f.{f['name']}').closest('section').querySelector('[role=status]').textContent; return s.startsWith('Running') ? '' : s")


def changed(driver, folder):
    """A changed model is refused."""
    with tempfile.TemporaryDirectory() as work:
        copy = os.path.join(work, "page")
        shutil.copytree(folder, copy)
        path = sorted(glob.glob(os.path.join(copy, "models", "*", "model.onnx")))[0]
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 2)
            byte = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([byte[0] ^ 1]))
        server, url = served(copy)
        driver.call("POST", "/url", {"url": url})
        driver.until("return document.documentElement.dataset.ready")
        driver.run("document.getElementById('check').click()")
        driver.until("return ['passed', 'failed'].find(v => v === document.documentElement.dataset.check)")
        text = driver.run("return document.getElementById('results').textContent")
        expect("a changed model is refused", "the digest is sha256:" in text)
        server.shutdown()


driver = Driver(sys.argv[1])
print("Chromium", driver.version)
try:
    for folder in sys.argv[2:]:
        check(driver, folder)
    changed(driver, sys.argv[2])
finally:
    driver.close()
sys.exit(bool(failed))
