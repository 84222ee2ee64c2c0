# Holds models against the reference implementations.
#
#   python reference.py check FILE...   onnx.checker, then a run by ONNX Runtime
#                                       on ones: prints each output's shape and
#                                       first values
#   python reference.py nodes           prints the folder of the backend tests
#   python reference.py accepts FILE... prints, for each, whether onnx.checker
#                                       accepts it
import os
import sys

import numpy
import onnx

mode, files = sys.argv[1], sys.argv[2:]
if mode == "nodes":
    print(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"))
elif mode == "accepts":
    for path in files:
        try:
            onnx.checker.check_model(path)
            print("yes")
        except Exception as e:
            print("no", str(e).replace("\n", " ")[:200])
else:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(uint8)": numpy.uint8}
    for path in files:
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feed = {}
        for i in session.get_inputs():
            shape = [d if isinstance(d, int) else 32 for d in i.shape]
            feed[i.name] = numpy.ones(shape, types[i.type])
        for o, value in zip(session.get_outputs(), session.run(None, feed)):
            print(o.name, list(value.shape), *("%.5f" % v for v in value.ravel()[:4]))
