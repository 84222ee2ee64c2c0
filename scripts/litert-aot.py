#!/usr/bin/env python3
"""Writes two LiteRT models and has LiteRT's own compiler plugin compile them.

    litert-aot.py LIBRARIES OUT [CHIP]

LIBRARIES is the folder of Qualcomm's libraries that the plugin of the installed
ai-edge-litert belongs to (2.2.0: QAIRT 2.47), OUT the folder that fc.tflite and
mixed.tflite are put into, CHIP the chip (SM8650). Both are x f32[2,16] -> y f32[2,8]:
fc is FULLY_CONNECTED with RELU; mixed is that, ATAN2(h, 1), which the NPU does
not take, and FULLY_CONNECTED [8,8]. Weights are (i * 37 % 23 - 11) / 16 for the i-th of
[out, in], biases (i % 5 - 2) / 8: the tests compute the same from the formula.
"""
import os, subprocess, sys

import flatbuffers
import numpy as np
import ai_edge_litert
from ai_edge_litert import schema_py_generated as s


def weights(rows, cols):
    i = np.arange(rows * cols, dtype=np.float32)
    return ((i * 37 % 23 - 11) / 16).astype(np.float32).reshape(rows, cols)


def bias(n):
    return ((np.arange(n) % 5 - 2) / 8).astype(np.float32)


class Model:
    def __init__(self):
        self.m = s.ModelT()
        self.m.version, self.m.description = 3, b"mm"
        self.m.buffers, self.m.operatorCodes = [s.BufferT()], []
        self.g = s.SubGraphT()
        self.g.name, self.g.tensors, self.g.operators = b"main", [], []
        self.m.subgraphs = [self.g]

    def tensor(self, name, shape, data=None):
        t = s.TensorT()
        t.name, t.shape, t.type, t.buffer = name.encode(), list(shape), s.TensorType.FLOAT32, 0
        if data is not None:
            b = s.BufferT()
            b.data = np.frombuffer(data.astype("<f4").tobytes(), dtype=np.uint8)
            self.m.buffers.append(b)
            t.buffer = len(self.m.buffers) - 1
        self.g.tensors.append(t)
        return len(self.g.tensors) - 1

    def op(self, code, inputs, outputs, kind=0, options=None):
        c = s.OperatorCodeT()
        c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), 1
        self.m.operatorCodes.append(c)
        o = s.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = len(self.m.operatorCodes) - 1, inputs, outputs
        o.builtinOptionsType, o.builtinOptions = kind, options
        self.g.operators.append(o)

    def connected(self, name, x, width, inner, act):
        w = self.tensor(name + ".w", (width, inner), weights(width, inner))
        b = self.tensor(name + ".b", (width,), bias(width))
        y = self.tensor(name, (2, width))
        o = s.FullyConnectedOptionsT()
        o.fusedActivationFunction = act
        self.op(s.BuiltinOperator.FULLY_CONNECTED, [x, w, b], [y], s.BuiltinOptions.FullyConnectedOptions, o)
        return y

    def write(self, path, x, y):
        self.g.inputs, self.g.outputs = [x], [y]
        b = flatbuffers.Builder(1 << 14)
        b.Finish(self.m.Pack(b), b"TFL3")
        with open(path, "wb") as f:
            f.write(b.Output())


def fc(path):
    m = Model()
    x = m.tensor("x", (2, 16))
    m.write(path, x, m.connected("y", x, 8, 16, s.ActivationFunctionType.RELU))


def mixed(path):
    m = Model()
    x = m.tensor("x", (2, 16))
    h = m.connected("h", x, 8, 16, s.ActivationFunctionType.NONE)
    one = m.tensor("one", (2, 8), np.ones((2, 8)))
    a = m.tensor("a", (2, 8))
    m.op(s.BuiltinOperator.ATAN2, [h, one], [a])
    m.write(path, x, m.connected("y", a, 8, 8, s.ActivationFunctionType.NONE))


def main():
    libs, out, chip = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["SM8650"])[0]
    own = list(ai_edge_litert.__path__)[0]
    env = dict(os.environ, LD_LIBRARY_PATH=libs + ":" + own)
    for name, make in (("fc", fc), ("mixed", mixed)):
        source = os.path.join(out, name + ".source.tflite")
        made = os.path.join(out, name + ".tflite")
        make(source)
        run = subprocess.run([os.path.join(own, "tools", "apply_plugin_main"), "--cmd", "apply", "--model", source, "--soc_manufacturer", "Qualcomm", "--soc_model", chip,
                              "--libs", os.path.join(own, "vendors", "qualcomm", "compiler"), "-o", made], env=env, capture_output=True, text=True)
        # A failure leaves an empty file, whatever it answers.
        if run.returncode != 0 or os.path.getsize(made) == 0:
            sys.exit("%s: exit %d\n%s" % (name, run.returncode, (run.stdout + run.stderr)[-2000:]))
        print("%s: %d bytes of %d, for %s" % (made, os.path.getsize(made), os.path.getsize(source), chip))


if __name__ == "__main__":
    main()
