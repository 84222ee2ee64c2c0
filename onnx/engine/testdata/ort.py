"""Runs models on ONNX Runtime for onnx/engine's tests and its benchmark.

Lines on stdin: "load MODEL THREADS", then "run DIR", which reads DIR/inK.npy
for input K, writes DIR/outK.npy for each output and prints the nanoseconds
that the run took, or "time N", which runs N times on the same inputs again
and prints the median and the least of what each took.
"""

import sys
import time

import numpy as np
import onnxruntime as ort

session, feeds = None, {}


def timed():
    start = time.perf_counter_ns()
    out = session.run(None, feeds)
    return time.perf_counter_ns() - start, out


for line in sys.stdin:
    what, *args = line.split()
    if what == "load":
        opt = ort.SessionOptions()
        opt.intra_op_num_threads = int(args[1])
        opt.inter_op_num_threads = 1
        opt.log_severity_level = 3
        session = ort.InferenceSession(args[0], opt, providers=["CPUExecutionProvider"])
        print("ok", flush=True)
    elif what == "run":
        feeds = {i.name: np.load(f"{args[0]}/in{k}.npy") for k, i in enumerate(session.get_inputs())}
        took, out = timed()
        for k, a in enumerate(out):
            np.save(f"{args[0]}/out{k}.npy", np.ascontiguousarray(a))
        print(took, flush=True)
    else:
        runs = sorted(timed()[0] for _ in range(int(args[0])))
        print(runs[len(runs) // 2], runs[0], flush=True)
