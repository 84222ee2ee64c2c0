"""Runs the functions of pulled builds on their golden inputs by each engine, and the core in ExecuTorch.

exports_run.py MM REGISTRY PULLED    functions by mm run: cosines with the golden outputs
exports_run.py FOLDER                a core for ExecuTorch: decode and prefill compute the same logits and caches
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 0.99999  # all functions are in fp32
ENGINES = {"litert": ("playbook", "-mobile-android", ["vision-enc", "audio-enc"]),
           "onnx": ("playbook", "-laptop", None), "openvino": ("playbook-openvino", "-laptop", None)}


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def golden(name):
    """Inputs in the shapes of the model, and ONNX Runtime's outputs."""
    import onnxruntime
    folder = os.path.join(ROOT, "catalog", name)
    session = onnxruntime.InferenceSession(glob.glob(os.path.join(folder, "*.onnx"))[0], providers=["CPUExecutionProvider"])
    feeds = {}
    for i in session.get_inputs():
        x = np.load(os.path.join(folder, "golden", i.name + ".npy"))
        feeds[i.name] = x.reshape([d if isinstance(d, int) else 1 for d in i.shape]) if x.ndim != len(i.shape) or x.shape[1:] != tuple(i.shape[1:]) and all(isinstance(d, int) for d in i.shape[1:]) else x
    names = [o.name for o in session.get_outputs()]
    return feeds, dict(zip(names, session.run(names, feeds)))


def functions(mm, registry, pulled):
    bad = 0
    installed = subprocess.run([mm, "runtime", "ls"], capture_output=True, text=True).stdout
    for engine, (build, suffix, names) in ENGINES.items():
        if engine != "onnx" and engine not in installed:
            print(f"skipped: {engine} is not installed")
            continue
        for name in names or sorted({"vision-enc", "vision-proj", "audio-enc", "audio-proj", "img-dec", "tts-dec"}):
            feeds, want = golden(name)
            with tempfile.TemporaryDirectory() as work:
                args = [mm, "run", f"{registry}/{build}:0.1.0{suffix}/{name}", "--backend", engine]
                for k, v in feeds.items():
                    np.save(os.path.join(work, k + ".npy"), v)
                    args += ["-i", f"{k}={work}/{k}.npy"]
                for k in want:
                    args += ["-o", f"{k}={work}/out-{k}.npy"]
                done = subprocess.run(args, capture_output=True, text=True)
                if done.returncode:
                    print(f"{engine} {name}: {done.stderr.strip()[-300:]}")
                    bad += 1
                    continue
                least = min(cosine(want[k], np.load(f"{work}/out-{k}.npy")) for k in want)
            print(f"{engine} {name}: cosine {least:.7f}", flush=True)
            bad += not least >= LIMIT
    return bad


def core(folder):
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import exports_mobile
    path = glob.glob(os.path.join(folder, "*.pte"))[0]
    record = json.load(open(path.removesuffix(".pte") + ".json"))
    try:
        load = exports_mobile.program(path)
    except ImportError as e:
        print(f"skipped: executorch: {e}")
        return 0
    methods = {name: load(name) for name in ("decode", "prefill")}
    caches = [n for n in record["inputs"] if n.startswith("past_")]
    shape = (1, record["kv_heads"], record["window"], record["head_dim"])
    n = record["positions"]
    tokens = np.arange(3, 3 + n, dtype=np.int64)

    def run(method, state, tokens, position):
        feeds = {"tokens": tokens[None], "position": np.array([position], np.int64), **state}
        out = dict(zip(record["outputs"], (np.array(v) for v in methods[method]([feeds[k] for k in record["inputs"]]))))
        return out["logits"][0, -1], {k: out[k.replace("past_", "next_")] for k in caches}

    empty = {k: np.zeros(shape, np.float32) for k in caches}
    together, after = run("prefill", empty, tokens, 0)
    state = empty
    for i in range(n):
        single, state = run("decode", state, tokens[i:i + 1], i)
    again, _ = run("decode", state, tokens[:1], n)
    mixed, _ = run("decode", after, tokens[:1], n)
    least = min(cosine(together, single), cosine(again, mixed), *(cosine(after[k], state[k]) for k in caches))
    print(f"executorch core-llm in {record['precision']}: decode of {n} tokens and prefill: least cosine of logits and caches {least:.7f}, the same token: {single.argmax() == together.argmax()}")
    return not (least >= 0.9999 and single.argmax() == together.argmax())


if __name__ == "__main__":
    sys.exit(1 if (functions(*sys.argv[1:]) if len(sys.argv) > 2 else core(sys.argv[1])) else 0)
