"""Runs exported files with their vendors' software and compares the results with ONNX Runtime's.

exports_mobile.py FOLDER: NAME.onnx, NAME/INPUT.npy, and what the tests wrote to out. Prints a table; a
cosine below the limit of the precision is an error, unless ONNX Runtime's optimized and unoptimized graphs
differ as well.
"""
import json
import os
import sys
import time

import numpy as np
import onnxruntime

LIMITS = {"fp32": 0.99999, "fp16": 0.9999, "int8": 0.98, "int4": 0.95}
THREADS = 2


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    if a.shape != b.shape or not np.isfinite(b).all():
        return 0.0
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return 1.0 if norm == 0 else float(a @ b / norm)


def timed(run):
    run()
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1000


def session(folder, name, level):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.graph_optimization_level = THREADS, level
    return onnxruntime.InferenceSession(os.path.join(folder, name + ".onnx"), options, providers=["CPUExecutionProvider"])


def reference(folder, name):
    """Inputs, results and time of ONNX Runtime, and the cosine of its results with those of its unoptimized graph."""
    fast, plain = (session(folder, name, level) for level in (onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL))
    feeds = {}
    for i in fast.get_inputs():
        x = np.load(os.path.join(folder, name, i.name + ".npy"))
        feeds[i.name] = x.reshape([d if isinstance(d, int) else 1 for d in i.shape]) if x.ndim != len(i.shape) else x
    results = fast.run(None, feeds)
    own = min(cosine(a, b) for a, b in zip(results, plain.run(None, feeds)))
    return feeds, dict(zip([o.name for o in fast.get_outputs()], results)), timed(lambda: fast.run(None, feeds)), own


def widen(x):
    if x.dtype == np.float16:
        return x.astype(np.float32)
    return x.astype(np.int32) if x.dtype in (np.int64, np.uint8, np.int8) else x


def litert(path, feeds, want):
    from ai_edge_litert.interpreter import Interpreter
    it = Interpreter(model_path=path, num_threads=THREADS)
    run = it.get_signature_runner()
    feeds = {k: widen(v) for k, v in feeds.items()}
    return run(**feeds), timed(lambda: run(**feeds))


def openvino(path, feeds, want):
    import openvino as ov
    core = ov.Core()
    model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": THREADS})
    byname = {}
    for i in model.inputs:
        byname[i] = next(v for k, v in feeds.items() if k in i.get_names()).astype(i.get_element_type().to_dtype())
    out = model(byname)
    got = {k: out[next(o for o in model.outputs if k in o.get_names())] for k in want}
    return got, timed(lambda: model(byname))


def coreml(path, feeds, want):
    import exports_coreml
    run = exports_coreml.load(path)
    feeds = {k: widen(v) for k, v in feeds.items()}
    begin = time.perf_counter()
    got = run(feeds)
    return got, (time.perf_counter() - begin) * 1000


def program(path):
    """The methods of a program by name: functions of a list of arrays."""
    try:
        import executorch_numpy_runtime as runtime
    except ImportError:
        import torch
        from executorch.extension.pybindings import portable_lib
        module = portable_lib._load_for_executorch(path)
        return lambda name: lambda feeds: [v.numpy() for v in module.run_method(name, [torch.from_numpy(v) for v in feeds])]
    return runtime.Runtime.get().load_program(path).load_method


def executorch(path, feeds, want):
    method = program(path)("forward")
    inputs = [v.astype(np.float32) if v.dtype == np.float16 else v.astype(np.int32) if v.dtype in (np.uint8, np.int8) else v for v in feeds.values()]
    got = dict(zip(want, method(inputs)))
    return got, timed(lambda: method(inputs))


JUDGES = {"executorch": [("executorch", executorch)], "tflite": [("litert", litert), ("openvino", openvino)], "nnapi": [("litert", litert)], "coreml": [("coremltools", coreml)], "openvino": [("openvino", openvino)]}


def size(path):
    if path.endswith("Manifest.json"):
        folder = os.path.dirname(path)
        return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)
    weights = path.removesuffix(".xml") + ".bin"  # of OpenVINO
    return os.path.getsize(path) + (os.path.getsize(weights) if path.endswith(".xml") else 0)


def main():
    folder = sys.argv[1]
    bad, known = 0, {}
    print("| model | format | precision | judge | cosine | KiB | ms | ONNX Runtime ms |\n|---|---|---|---|---|---|---|---|")
    for format, judges in JUDGES.items():
        listing = os.path.join(folder, "out", format + ".json")
        if not os.path.exists(listing):
            continue
        for row in json.load(open(listing)):
            name, precision = row["model"], row["precision"]
            if row.get("refused"):
                print(f"| {name} | {format} | {precision} | refused: {row['refused'][:160]} | | | | |")
                continue
            if name not in known:
                known[name] = reference(folder, name)
            feeds, want, base, own = known[name]
            for judge, run in judges:
                try:
                    got, ms = run(row["path"], feeds, want)
                    least = min(cosine(want[k], got[k]) for k in want)
                except ImportError as e:
                    print(f"| {name} | {format} | {precision} | {judge} skipped: {e} | | | | |")
                    continue
                except Exception as e:  # a judge's own fault is a row
                    print(f"| {name} | {format} | {precision} | {judge}: {str(e)[:200]!r} | | | | |")
                    bad += judge != "openvino"
                    continue
                low, varies = least < LIMITS[precision], own < LIMITS["fp32"]  # numbers near 0, whose rounding decides
                bad += low and not varies
                mark = f" (ONNX Runtime's own graphs: {own:.7f})" if low and varies else " !" if low else ""
                print(f"| {name} | {format} | {precision} | {judge} | {least:.7f}{mark} | {size(row['path']) // 1024} | {ms:.1f} | {base:.1f} |", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
