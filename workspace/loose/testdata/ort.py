"""Answers for workspace/loose's tests, one line of JSON for each line on stdin.

"ports MODEL": the inputs and outputs that ONNX Runtime reports.
"run MODEL DIR NAME": runs MODEL on DIR/in0.npy, … and writes its output NAME
to DIR/out.npy.
"""

import json
import sys

import numpy as np
import onnxruntime as ort

opt = ort.SessionOptions()
opt.log_severity_level = 4
opt.intra_op_num_threads = 1


def session(model):
    return ort.InferenceSession(model, opt, providers=["CPUExecutionProvider"])


for line in sys.stdin:
    what, *args = line.split()
    try:
        if what == "ports":
            s = session(args[0])
            ports = [[[v.name, v.type, v.shape] for v in side] for side in (s.get_inputs(), s.get_outputs())]
            print(json.dumps(ports), flush=True)
        else:
            s = session(args[0])
            feeds = {i.name: np.load(f"{args[1]}/in{k}.npy") for k, i in enumerate(s.get_inputs())}
            out = s.run([args[2]], feeds)[0]
            np.save(f"{args[1]}/out.npy", np.ascontiguousarray(out))
            print(json.dumps("ok"), flush=True)
    except Exception as e:  # the test prints it
        print(json.dumps({"error": str(e)}), flush=True)
