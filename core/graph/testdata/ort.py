"""Runs models on ONNX Runtime for core/graph's tests.

Lines on stdin: "load MODEL THREADS", then "run DIR", which reads DIR/NAME.npy
for each input, writes DIR/out.NAME.npy for each output and prints the
nanoseconds that the run took, or "time", which runs on the same inputs again.
"""

import sys
import time

import numpy as np
import onnxruntime as ort

session, feeds = None, {}
for line in sys.stdin:
    what, *args = line.split()
    if what == "load":
        opt = ort.SessionOptions()
        opt.intra_op_num_threads = int(args[1])
        opt.inter_op_num_threads = 1
        opt.log_severity_level = 3
        session = ort.InferenceSession(args[0], opt, providers=["CPUExecutionProvider"])
        print("ok", flush=True)
        continue
    if what == "run":
        feeds = {i.name: np.load(f"{args[0]}/in{k}.npy") for k, i in enumerate(session.get_inputs())}
    start = time.perf_counter_ns()
    out = session.run(None, feeds)
    took = time.perf_counter_ns() - start
    if what == "run":
        for k, a in enumerate(out):
            np.save(f"{args[0]}/out{k}.npy", np.ascontiguousarray(a))
    print(took, flush=True)
