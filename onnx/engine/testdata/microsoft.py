"""Writes microsoft.json.gz: small models of operators of com.microsoft, and of
others that ONNX's reference evaluator lacks, with ONNX Runtime's results. Needs
the Python packages onnx==1.22.0, onnxruntime==1.32.0 and numpy.

    python onnx/engine/testdata/microsoft.py onnx/engine/testdata/microsoft.json.gz
"""

import base64
import gzip
import json
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(11)
cases = []
ort.set_default_logger_severity(4)


def b64(m):
    return base64.b64encode(m.SerializeToString()).decode()


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def h(*shape):
    return f(*shape).astype(np.float16)


def i64(*v):
    return np.array(v, np.int64)


def i32(*v):
    return np.array(v, np.int32)


def u8(*s):
    return rng.integers(0, 256, s).astype(np.uint8)


def i8(*s):
    return rng.integers(-128, 128, s).astype(np.int8)


def case(op, *inputs, outs=1, opset=21, domain="com.microsoft", skip=(), fixed=(), **attrs):
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    results = ["" if k in skip else f"o{k}" for k in range(outs)]
    node = helper.make_node(op, names, results, domain=domain, **attrs)
    feeds = {n: np.asarray(a) for n, a in zip(names, inputs) if n}
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, (n, a) in enumerate(feeds.items()) if k not in fixed]
    constants = [numpy_helper.from_array(a, n) for k, (n, a) in enumerate(feeds.items()) if k in fixed]
    graph = helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info(o) for o in results if o], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    feeds = {v.name: feeds[v.name] for v in values}
    try:
        out = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as e:
        print(op, attrs, [a.shape if a is not None else None for a in inputs], str(e)[:200], file=sys.stderr)
        return
    cases.append({
        "name": f"{op}/{len(cases)}", "model": b64(model),
        "in": {n: b64(numpy_helper.from_array(a)) for n, a in feeds.items()},
        "out": [b64(numpy_helper.from_array(np.asarray(o))) for o in out],
    })


def norms():
    x = f(2, 3, 8)
    for skip in (f(2, 3, 8), f(1, 3, 8), f(3, 8)):
        case("SkipLayerNormalization", x, skip, f(8), f(8), f(8), outs=4, skip=(1, 2), epsilon=1e-5)
        case("SkipSimplifiedLayerNormalization", x, skip, f(8), f(8), outs=4, skip=(1, 2), epsilon=1e-5)
    case("SkipLayerNormalization", x, f(2, 3, 8), f(8))
    case("SkipLayerNormalization", x, f(2, 3, 8), f(8), None, f(8))
    case("SkipSimplifiedLayerNormalization", f(6, 8), f(6, 8), f(8))
    case("SkipSimplifiedLayerNormalization", h(2, 3, 8), h(2, 3, 8), h(8), epsilon=1e-5)
    case("SimplifiedLayerNormalization", x, f(8), domain="", epsilon=1e-6)
    case("SimplifiedLayerNormalization", x, f(8), outs=2, domain="", epsilon=1e-6)
    case("SimplifiedLayerNormalization", h(2, 8), h(8), domain="", epsilon=1e-6, stash_type=1)


def gelus():
    x = f(3, 70) * 3
    case("BiasGelu", x, f(70))
    case("FastGelu", x)
    case("FastGelu", x, f(70))
    case("FastGelu", h(2, 5), h(5))
    case("QuickGelu", x)
    case("QuickGelu", x, alpha=1.0)
    case("Gelu", x)


def products():
    case("FusedMatMul", f(2, 3, 4), f(2, 4, 5), alpha=0.5)
    case("FusedMatMul", f(2, 4, 3), f(2, 4, 5), transA=1)
    case("FusedMatMul", f(2, 3, 4), f(2, 5, 4), transB=1, alpha=2.0)
    case("FusedMatMul", f(4, 3), f(5, 4), transA=1, transB=1)
    case("FusedMatMul", f(3, 2, 4), f(2, 4, 5), transBatchA=1)
    case("FusedMatMul", f(4, 2, 3), f(4, 2, 5), transBatchA=1, transA=1, transBatchB=1)
    case("FusedMatMul", f(5, 2, 3, 4), f(2, 3, 4, 6), transBatchA=1)
    img, w = f(1, 2, 6, 6), f(4, 2, 3, 3)
    case("FusedConv", img, w, f(4), activation="Relu")
    case("FusedConv", img, w, f(4), f(1, 4, 4, 4), activation="Relu")
    case("FusedConv", img, w, None, f(1, 4, 4, 4))
    case("FusedConv", img, w, f(4), activation="LeakyRelu", activation_params=[0.2])
    case("FusedConv", img, w, f(4), activation="Clip", activation_params=[-0.5, 1.0], pads=[1, 1, 1, 1])
    for act in ("Sigmoid", "Tanh"):
        case("FusedConv", img, w, f(4), activation=act)
    case("FusedConv", img, w, activation="HardSigmoid", activation_params=[0.3, 0.4])
    s = lambda *v: np.float32(v if len(v) != 1 else v[0])
    for b, z in ((u8(8, 5), np.uint8(120)), (i8(8, 5), np.int8(3)), (i8(8, 5), i8(5))):
        case("DynamicQuantizeMatMul", f(2, 3, 8), b, s(0.02), np.asarray(z) if np.ndim(z) == 0 else None, f(5))
        case("DynamicQuantizeMatMul", f(2, 8), b, np.abs(f(5)) * 0.05, z if np.ndim(z) else None, fixed=(1, 2))
        case("MatMulIntegerToFloat", u8(3, 8), b, s(0.1), s(0.02), np.uint8(128), np.asarray(z) if np.ndim(z) == 0 else None, f(5))
        case("MatMulIntegerToFloat", u8(2, 3, 8), b, s(0.1), np.abs(f(5)), np.uint8(99), z if np.ndim(z) else None)


def nbits():
    for bits in (2, 4, 8):
        for k, n, size in ((32, 5, 16), (64, 7, 32), (50, 3, 32), (128, 4, 128)):
            count = -(-k // size)
            b, sc = u8(n, count, size * bits // 8), f(n, count) * 0.1
            attrs = dict(K=k, N=n, bits=bits, block_size=size)
            flat = sc.reshape(-1)
            zp = u8(n, -(-count * bits // 8))
            case("MatMulNBits", f(2, 3, k), b, flat, **attrs)
            case("MatMulNBits", f(1, k), b, flat, zp.reshape(-1), **attrs, fixed=(1, 2, 3))
            case("MatMulNBits", f(4, k), b, sc, zp, None, f(n), **attrs)
            if bits == 4 and size == 32:
                case("MatMulNBits", f(2, k), b, flat, f(n * count), **attrs)
                g = np.sort(rng.integers(0, count, count * size)).astype(np.int32)
                case("MatMulNBits", f(2, k), b, flat, None, g, **attrs, fixed=(1, 2, 3))
                case("MatMulNBits", h(2, k), b, flat.astype(np.float16), **attrs)
                case("MatMulNBits", f(2, k), b, flat, **attrs, accuracy_level=1)
    for bits in (4, 8):
        d = u8(6, 64 * bits // 8)
        case("GatherBlockQuantized", d, i64(3, -1, 0), np.abs(f(6, 2)), bits=bits, block_size=32, quantize_axis=1, gather_axis=0)
        case("GatherBlockQuantized", d, np.int32([[1], [5]]), np.abs(f(6, 4)), u8(6, 4 * bits // 8), bits=bits, block_size=16, quantize_axis=1, gather_axis=0)
        case("GatherBlockQuantized", u8(4, 3, 32 * bits // 8), i64(3, 1), h(4, 3, 1), bits=bits, block_size=32, quantize_axis=2, gather_axis=0)


def gathers():
    for kind in (ml_dtypes.int4, ml_dtypes.uint4):
        d = rng.integers(0, 8, (6, 40, 3)).astype(kind)
        g = lambda *a, **kw: case("GatherBlockQuantized", *a, block_size=16, **kw)
        for axis in (0, 1, 2):
            at = np.int64([[2, 0], [-1, 1]])
            g(d, at, f(6, 3, 3), gather_axis=axis, quantize_axis=1, fixed=(0,))
            g(d, at, f(6, 3, 3), rng.integers(0, 8, (6, 3, 3)).astype(kind), gather_axis=axis, quantize_axis=1, fixed=(0, 3))
        g(d, np.int32(4), f(1, 40, 3), gather_axis=0, quantize_axis=0, fixed=(0,))


def qlinear():
    s = np.float32
    for mk, z in ((u8, np.uint8(120)), (i8, np.int8(-7))):
        for op in ("QLinearAdd", "QLinearMul"):
            case(op, mk(2, 3, 70), s(0.1), z, mk(2, 3, 70), s(0.2), z, s(0.3), z)
            case(op, mk(3000), s(0.013), z, mk(3000), s(0.0171), mk().dtype.type(11), s(0.029), mk().dtype.type(3))
            case(op, mk(2, 3, 4), s(0.1), z, mk(4), s(0.05), z, s(0.07), z)
            case(op, mk(2, 3, 4), s(0.1), z, mk(2, 1, 1), s(0.05), z, s(0.7), z)
        every = np.arange(256).astype(mk().dtype)
        case("QLinearSigmoid", every, s(0.05), z, s(1 / 256), mk().dtype.type(0))
        case("QLinearLeakyRelu", every, s(0.05), z, s(0.04), z, alpha=0.2)
        img = mk(2, 3, 7, 6)
        case("QLinearAveragePool", img, s(0.1), z, s(0.09), z, kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1])
        case("QLinearAveragePool", img, s(0.1), z, s(0.09), z, kernel_shape=[2, 2], count_include_pad=1, pads=[1, 0, 1, 0], ceil_mode=1, strides=[2, 2])
        case("QLinearAveragePool", mk(1, 5, 5, 3), s(0.1), z, s(0.09), z, kernel_shape=[2, 2], channels_last=1)
        case("QLinearGlobalAveragePool", img, s(0.1), z, s(0.06), z)
        case("QLinearGlobalAveragePool", mk(2, 5, 6, 3), s(0.1), z, s(0.06), z, channels_last=1)
        case("QLinearConcat", s(0.1), z, mk(2, 3), s(0.2), z, mk(2, 4), s(0.05), z, mk(2, 1), s(0.1), z, axis=1)
        case("QLinearConcat", s(0.1), z, mk(2, 3, 2), s(0.2), z, mk(1, 3, 2), s(0.05), z, axis=0)


class Decoder:
    """A random language model with weights of 4 bits, as ONNX exports have it."""

    def __init__(self, dtype):
        self.nodes, self.constants, self.type = [], [], dtype

    def const(self, a):
        self.constants.append(numpy_helper.from_array(np.asarray(a), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def add(self, op, *inputs, outs=1, domain="com.microsoft", **attrs):
        names = [f"v{len(self.nodes)}_{k}" for k in range(outs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attrs))
        return names[0] if outs == 1 else names

    def linear(self, x, k, n, size=32):
        count = k // size
        scales = (np.abs(f(n * count)) * 0.05).astype(self.type)
        inputs = [x, self.const(u8(n, count, size // 2)), self.const(scales), self.const(u8(n * ((count + 1) // 2)))]
        return self.add("MatMulNBits", *inputs, K=k, N=n, bits=4, block_size=size, accuracy_level=0)

    def gain(self, n):
        return self.const((1 + 0.1 * f(n)).astype(self.type))

    def build(self, layers=2, dim=32, heads=4, groups=2, size=16, hidden=64, vocab=50):
        cos, sin = (self.const(a.astype(self.type)) for a in cache(64, size // 2))
        ints = lambda v: self.const(np.int64(v))
        kept = self.add("ReduceSum", "attention_mask", ints([1]), domain="", keepdims=0)
        lens = self.add("Cast", self.add("Sub", kept, ints(1), domain=""), domain="", to=TensorProto.INT32)
        total = self.add("Cast", self.add("Gather", self.add("Shape", "attention_mask", domain=""), ints(1), domain=""), domain="", to=TensorProto.INT32)
        x = self.add("Gather", self.const(f(vocab, dim).astype(self.type)), "input_ids", domain="")
        y = self.add("SimplifiedLayerNormalization", x, self.gain(dim), domain="", epsilon=1e-5, axis=-1)
        present = []
        for i in range(layers):
            q, k, v = (self.linear(y, dim, n * size) for n in (heads, groups, groups))
            out = self.add("GroupQueryAttention", q, k, v, f"past_{i}_key", f"past_{i}_value", lens, total, cos, sin, outs=3, do_rotary=1, num_heads=heads, kv_num_heads=groups)
            present += out[1:]
            y, _, _, x = self.add("SkipSimplifiedLayerNormalization", x, self.linear(out[0], heads * size, dim), self.gain(dim), outs=4, epsilon=1e-5)
            self.nodes[-1].output[1] = self.nodes[-1].output[2] = ""
            gate, up = self.linear(y, dim, hidden), self.linear(y, dim, hidden)
            act = self.add("Mul", gate, self.add("Sigmoid", gate, domain=""), domain="")
            down = self.linear(self.add("Mul", act, up, domain=""), hidden, dim)
            y, _, _, x = self.add("SkipSimplifiedLayerNormalization", x, down, self.gain(dim), outs=4, epsilon=1e-5)
            self.nodes[-1].output[1] = self.nodes[-1].output[2] = ""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.type))
        values = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", d]) for n, d in (("input_ids", "s"), ("attention_mask", "t"))]
        for i in range(layers):
            values += [helper.make_tensor_value_info(f"past_{i}_{k}", kind, ["b", groups, "p", size]) for k in ("key", "value")]
        results = [self.linear(y, dim, vocab)] + present
        graph = helper.make_graph(self.nodes, "g", values, [helper.make_empty_tensor_value_info(o) for o in results], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


def decoders():
    for dtype in (np.float32, np.float16):
        model = Decoder(dtype).build()
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        past = [np.zeros((1, 2, 0, 16), dtype)] * 4
        for n, t in ((7, 7), (1, 8), (1, 9)):
            feeds = {"input_ids": rng.integers(0, 50, (1, n)), "attention_mask": np.ones((1, t), np.int64)}
            feeds |= {f"past_{i // 2}_{('key', 'value')[i % 2]}": a for i, a in enumerate(past)}
            out = session.run(None, feeds)
            past = out[1:]
            cases.append({
                "name": f"Decoder/{len(cases)}", "model": b64(model),
                "in": {k: b64(numpy_helper.from_array(a)) for k, a in feeds.items()},
                "out": [b64(numpy_helper.from_array(a)) for a in out],
            })


def whole(name, graph, functions=(), opset=18, **feeds):
    """Adds a case of a model of several nodes."""
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=domains, functions=list(functions), ir_version=10)
    out = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    cases.append({
        "name": f"{name}/{len(cases)}", "model": b64(model),
        "in": {k: b64(numpy_helper.from_array(a)) for k, a in feeds.items()},
        "out": [b64(numpy_helper.from_array(np.asarray(a))) for a in out],
    })


def functions():
    node, imports = helper.make_node, [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    leaky = node("LeakyRelu", ["t"], ["y"])
    ref = lambda name, of: onnx.AttributeProto(name=name, type=onnx.AttributeProto.FLOAT, ref_attr_name=of)
    leaky.attribute.append(ref("alpha", "slope"))
    inner = helper.make_function("mine", "Inner", ["a", "b"], ["y"], [node("Add", ["a", "b"], ["t"]), leaky], imports, ["slope"])
    call = node("Inner", ["x", "x"], ["t"], domain="mine")
    call.attribute.append(ref("slope", "by"))
    scalar = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    then, other = (helper.make_graph([node(op, ["t"], ["r"])], op, [], [scalar]) for op in ("Neg", "Abs"))
    outer = helper.make_function("mine", "Outer", ["x", "c"], ["y", "t"], [call, node("If", ["c"], ["y"], then_branch=then, else_branch=other)], imports, [], [helper.make_attribute("by", 0.5)])
    info = lambda n, kind, shape: helper.make_tensor_value_info(n, kind, shape)
    nodes = [
        node("Outer", ["x", "c"], ["p", "q"], domain="mine"),
        node("Outer", ["p", "c"], ["t", ""], domain="mine", by=0.25),
        node("Inner", ["t", "q"], ["u"], domain="mine", slope=0.1),
        node("Inner", ["u", "q"], ["y"], domain="mine"),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [2, 3]), info("c", TensorProto.BOOL, [])], [info("y", TensorProto.FLOAT, None)])
    for c in (True, False):
        whole("Functions", graph, [inner, outer], x=f(2, 3), c=np.asarray(c))


def scans():
    node, info = helper.make_node, helper.make_tensor_value_info
    for axis, back in ((0, 0), (1, 1)):
        shape = [4, 3] if axis == 0 else [3, 4]
        body = helper.make_graph(
            [node("Add", ["s", "a"], ["t"]), node("Mul", ["t", "b"], ["u"])], "body",
            [info(n, TensorProto.FLOAT, [3]) for n in "sab"], [info(n, TensorProto.FLOAT, [3]) for n in "tu"])
        scan = node("Scan", ["z", "x", "y"], ["last", "all"], num_scan_inputs=2, body=body, scan_input_axes=[axis, axis],
                    scan_input_directions=[back, 0], scan_output_axes=[axis], scan_output_directions=[back])
        graph = helper.make_graph([scan], "g", [info("z", TensorProto.FLOAT, [3])] + [info(n, TensorProto.FLOAT, shape) for n in "xy"],
                                  [info(n, TensorProto.FLOAT, None) for n in ("last", "all")])
        whole("Scan", graph, z=f(3), x=f(*shape), y=f(*shape))


def cache(rows, half):
    at = np.arange(rows)[:, None] / 10 ** (np.arange(half) / half)
    return np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)


def rotary():
    cos, sin = cache(16, 4)
    for inter in (0, 1):
        case("RotaryEmbedding", f(2, 3, 16), np.int64([[0, 1, 2], [4, 5, 6]]), cos, sin, interleaved=inter)
        case("RotaryEmbedding", f(2, 2, 3, 8), i64(5), cos, sin, interleaved=inter)
        case("RotaryEmbedding", f(2, 3, 24), np.int64([[0, 1, 2], [4, 5, 6]]), cos, sin, interleaved=inter, num_heads=2, rotary_embedding_dim=8)
    case("RotaryEmbedding", h(1, 3, 16), i64(2), cos.astype(np.float16), sin.astype(np.float16))


def heads():
    b, s, n, d = 2, 5, 4, 8
    q, k, v = f(b, s, n * d), f(b, s, n * d), f(b, s, n * d)
    m = lambda *a, **kw: case("MultiHeadAttention", *a, num_heads=n, **kw)
    m(q, k, v)
    m(q, k, v, scale=0.3)
    m(q, k, v, f(3 * n * d))
    m(q, k, v, unidirectional=1)
    m(q, f(b, 7, n * d), f(b, 7, n * 6))
    m(q, f(b, n, 7, d), f(b, n, 7, d))
    m(q, k, v, None, np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
    m(q, k, v, None, np.int32([3, 5]))
    m(q, k, v, None, rng.integers(0, 2, (b, s, s)).astype(np.int32))
    m(q, k, v, None, np.int32([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]), f(1, n, s, s), unidirectional=1)
    m(q, k, v, None, None, f(b, 1, s, s))
    m(q, k, v, None, None, f(1, 1, s, s))
    m(q, k, v, None, None, None, f(b, n, 3, d), f(b, n, 3, d), outs=3)
    m(q, k, v, f(3 * n * d), None, None, f(b, n, 3, d), f(b, n, 3, d), outs=3, unidirectional=1)
    m(f(1, 50, 8), f(1, 50, 8), f(1, 50, 8), outs=3)
    m(h(b, s, n * d), h(b, s, n * d), h(b, s, n * d))
    a = lambda *x, **kw: case("Attention", *x, num_heads=n, **kw)
    x, w, bias = f(b, s, 16), f(16, 3 * n * d), f(3 * n * d)
    a(x, w, bias)
    a(x, w)
    a(x, w, bias, unidirectional=1)
    a(x, w, bias, scale=0.2)
    a(x, w, bias, np.int32([3, 5]))
    a(x, w, bias, np.int32([3, 5, 1, 0]))
    a(x, w, bias, np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
    a(x, w, bias, rng.integers(0, 2, (b, s, s)).astype(np.int32), unidirectional=1)
    a(x, w, bias, np.int32([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]), mask_filter_value=-1e4)
    a(x, w, bias, None, f(2, b, n, 3, d), outs=2)
    a(x, w, bias, None, f(2, b, n, 3, d), outs=2, unidirectional=1)
    a(x, w, bias, None, None, f(b, n, s, s))
    a(x, f(16, 2 * n * d + n * 6), f(2 * n * d + n * 6), qkv_hidden_sizes=[n * d, n * d, n * 6])
    a(f(1, 50, 8), f(8, 24), f(24), outs=2)


def lstm():
    h0, d = 6, 5
    s = lambda *shape: np.abs(f(*shape)) * 0.01 + 0.003
    for dirs, way in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
        for mk, z in ((u8, lambda *v: u8(*v)), (i8, lambda *v: np.zeros(v, np.int8))):
            w, r = mk(dirs, d, 4 * h0), mk(dirs, h0, 4 * h0)
            for per in ((dirs,), (dirs, 4 * h0)):
                if mk is u8 and len(per) == 2:
                    continue
                zero = np.full(per, 121, np.uint8) if mk is u8 else np.zeros(per, np.int8)
                q = lambda x, *rest: case("DynamicQuantizeLSTM", x, w, r, *rest, s(*per), zero, s(*per), zero, outs=3, hidden_size=h0, direction=way, fixed=())
                q(f(7, 1, d), None, None, None, None, None)
                q(f(1, 1, d), f(dirs, 8 * h0), None, f(dirs, 1, h0), f(dirs, 1, h0), None)
                q(f(4, 1, d), f(dirs, 8 * h0), i32(3), None, None, f(dirs, 3 * h0))


def groups():
    n, kv, d = 4, 2, 16
    cos, sin = cache(80, d // 2)
    for b, s, past, room in ((1, 6, 0, 0), (2, 6, 0, 0), (1, 1, 7, 7), (2, 1, 7, 7), (1, 3, 7, 7), (1, 1, 5, 12), (1, 9, 0, 0)):
        for rot in (0, 1):
            total = past + s
            lens = np.full(b, total - 1, np.int32)
            if b == 2 and past == 0:
                lens[1] -= 2
            q, k, v = f(b, s, n * d), f(b, s, kv * d), f(b, s, kv * d)
            pk, pv = (f(b, kv, room, d), f(b, kv, room, d)) if room else (None, None)
            cs = (cos, sin) if rot else (None, None)
            g = lambda *a, **kw: case("GroupQueryAttention", *a, num_heads=n, kv_num_heads=kv, outs=3, do_rotary=rot, **kw)
            g(q, k, v, pk, pv, lens, i32(total)[0], *cs)
            if b == 1:
                g(q, k, v, pk, pv, lens, i32(total)[0], *cs, local_window_size=3)
                g(q, k, v, pk, pv, lens, i32(total)[0], *cs, softcap=2.0, scale=0.4)
                g(q, k, v, pk, pv, lens, i32(total)[0], *cs, smooth_softmax=1)
                g(q, k, v, pk, pv, lens, i32(total)[0], *cs, None, None, f(n), local_window_size=4)
                if rot:
                    g(q, k, v, pk, pv, lens, i32(total)[0], *cs, np.arange(s, dtype=np.int64)[None] * 2 + 3)
                g(f(b, s, (n + 2 * kv) * d), None, None, pk, pv, lens, i32(total)[0], *cs, rotary_interleaved=rot)
                g(q, k, v, pk, pv, lens, i32(total)[0], *cs, None, f(1, 1, s, total))
    case("GroupQueryAttention", h(1, 3, n * d), h(1, 3, kv * d), h(1, 3, kv * d), None, None, i32(2), i32(3)[0], cos.astype(np.float16), sin.astype(np.float16),
         num_heads=n, kv_num_heads=kv, outs=3, do_rotary=1)


def standard():
    """Attention and RotaryEmbedding of ai.onnx."""
    cos, sin = cache(16, 4)
    for inter in (0, 1):
        r = lambda *a, **kw: case("RotaryEmbedding", *a, opset=23, domain="", interleaved=inter, **kw)
        ids = np.int64([[0, 1, 2], [4, 5, 6]])
        r(f(2, 2, 3, 8), cos, sin, ids)
        r(f(2, 3, 16), cos, sin, ids, num_heads=2)
        r(f(2, 3, 24), cos, sin, ids, num_heads=2, rotary_embedding_dim=8)
        r(f(2, 2, 3, 8), f(2, 3, 4), f(2, 3, 4))
    n, kv, d = 4, 2, 8
    for opset in (23, 24):
        a = lambda *x, **kw: case("Attention", *x, opset=opset, domain="", **kw)
        q, k, v = f(2, n, 5, d), f(2, n, 6, d), f(2, n, 6, d)
        for kw in ({}, {"is_causal": 1}, {"scale": 0.1}, {"softcap": 2.0}, {"softcap": 2.0, "is_causal": 1}):
            a(q, k, v, **kw)
        a(q, k, f(2, n, 6, 3))
        a(q, k, v, f(5, 6))
        a(q, k, v, f(2, 1, 5, 6), is_causal=1)
        a(q, k, v, rng.integers(0, 2, (5, 6)).astype(bool))
        a(q, k, v, rng.integers(0, 2, (2, n, 5, 6)).astype(bool))
        a(q, f(2, kv, 6, d), f(2, kv, 6, d))
        a(f(2, 5, n * d), f(2, 6, kv * d), f(2, 6, kv * d), q_num_heads=n, kv_num_heads=kv)
        a(f(2, 5, n * d), f(2, 6, kv * d), f(2, 6, kv * d), q_num_heads=n, kv_num_heads=kv, is_causal=1)
        a(q, k, v, None, f(2, n, 3, d), f(2, n, 3, d), outs=3)
        a(q, k, v, None, f(2, n, 3, d), f(2, n, 3, d), outs=3, is_causal=1)
        a(f(2, 5, n * d), f(2, 5, kv * d), f(2, 5, kv * d), f(5, 8), f(2, kv, 3, d), f(2, kv, 3, d), outs=3, q_num_heads=n, kv_num_heads=kv)
        for mode in range(4):
            a(q, k, v, f(5, 6), outs=4, skip=(1, 2), qk_matmul_output_mode=mode, softcap=1.5)
        a(h(2, n, 5, d), h(2, n, 6, d), h(2, n, 6, d))
    case("Attention", q, k, v, f(5, 4), None, None, i64(3, 4), opset=24, domain="")
    case("Attention", q, k, v, None, None, None, i64(3, 6), opset=24, domain="")


def signals():
    c = lambda *a, opset=20, **kw: case(*a, opset=opset, domain="", **kw)
    for n in (1, 2, 8, 12, 15, 49, 74, 400):
        c("DFT", f(2, n, 1))
        c("DFT", f(2, n, 2), None, np.int64(1), inverse=1)
        c("DFT", f(2, n, 1), onesided=1)
        c("DFT", f(n, 3, 2).astype(np.float64), None, np.int64(0))
    c("DFT", f(2, 9, 1), np.int64(16))
    c("DFT", f(2, 9, 1), np.int64(5), onesided=1)
    c("DFT", f(2, 9, 3, 1), opset=17, axis=1)
    for length, win in ((16, 16), (40, 40), (37, 37)):
        c("STFT", f(2, 200, 1), np.int64(10), f(win), np.int64(length), opset=17)
        c("STFT", f(1, 200, 1), np.int64(7), None, np.int64(length), onesided=0, opset=17)
        c("STFT", f(1, 200, 2), np.int64(7), f(win), onesided=0, opset=17)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            c(op, np.int64(10), periodic=periodic)
            c(op, np.int32(9), periodic=periodic, output_datatype=TensorProto.DOUBLE)
    c("MelWeightMatrix", np.int64(8), np.int64(64), np.int64(8000), np.float32(20), np.float32(4000))
    c("MelWeightMatrix", np.int64(40), np.int64(400), np.int64(16000), np.float32(0), np.float32(8000), output_datatype=TensorProto.DOUBLE)


def resizes():
    x = f(1, 2, 7, 9)
    r = lambda *a, **kw: case("Resize", *a, opset=19, domain="", **kw)
    modes = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
    for scale in ([1, 1, 2.5, 1.7], [1, 1, 0.6, 0.45]):
        sc = np.float32(scale)
        for way in modes:
            if way == "align_corners":
                sc = np.float32([1, 1, 2, 1 / 3])  # ONNX Runtime rounds the size first
            r(x, None, sc, mode="cubic", coordinate_transformation_mode=way)
            r(x, None, sc, mode="linear", coordinate_transformation_mode=way)
        r(x, None, sc, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
        for mode in ("linear", "cubic"):
            r(x, None, sc, mode=mode, antialias=1)
            r(x, None, sc, mode=mode, antialias=1, exclude_outside=1)
    for mode in ("linear", "cubic"):
        r(x, None, None, i64(1, 2, 3, 4), mode=mode, antialias=1)
    for mode in ("nearest", "linear", "cubic"):
        roi = np.float32([0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2])
        r(x, roi, None, i64(1, 2, 5, 6), mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=3.0)


def samples():
    grid = rng.uniform(-1.6, 1.6, (2, 5, 4, 2)).astype(np.float32)
    for corners in (0, 1):
        for pad in ("zeros", "border", "reflection"):
            for mode in ("linear", "nearest", "cubic"):
                case("GridSample", f(2, 3, 6, 7), grid, opset=20, domain="", mode=mode, padding_mode=pad, align_corners=corners)
        ties = np.float32([[[[-0.75, 0.25], [0.75, -0.25], [1.5, -1.75], [-1.25, 1.9]]]])
        for mode in ("nearest", "cubic"):
            case("GridSample", f(1, 1, 5, 5), ties, opset=20, domain="", mode=mode, padding_mode="border", align_corners=corners)
        deep = rng.uniform(-1.3, 1.3, (1, 2, 3, 4, 3)).astype(np.float32)
        case("GridSample", f(1, 2, 4, 5, 6), deep, opset=20, domain="", mode="linear", align_corners=corners)
        case("GridSample", f(2, 1, 6, 7), grid, opset=16, domain="", mode="bilinear", align_corners=corners)
        case("AffineGrid", f(2, 2, 3), i64(2, 3, 5, 6), opset=20, domain="", align_corners=corners)
        case("AffineGrid", f(2, 3, 4), i64(2, 3, 4, 5, 6), opset=20, domain="", align_corners=corners)
    rois = np.float32([[0, 0, 9, 9], [1.5, 2.5, 6, 30], [-3, 5, 12, 12.5], [4, 4, 4, 4]])
    for mode in ("avg", "max"):
        for kw in ({}, {"sampling_ratio": 2}, {"coordinate_transformation_mode": "output_half_pixel"}, {"spatial_scale": 0.5}):
            case("RoiAlign", f(2, 3, 10, 11), rois, i64(0, 1, 1, 0), opset=16, domain="", mode=mode, output_height=3, output_width=4, **kw)
    case("RoiAlign", f(2, 3, 10, 11), rois, i64(0, 1, 1, 0), opset=10, domain="", output_height=3, output_width=4)


def others():
    """Unique, random numbers and other operators of ai.onnx."""
    c = lambda *a, opset=21, **kw: case(*a, opset=opset, domain="", **kw)
    x = rng.integers(0, 4, (5, 4))
    for dtype in (np.int64, np.float32, np.int8, np.float64):
        for srt in (0, 1):
            c("Unique", x.astype(dtype), outs=4, sorted=srt)
            c("Unique", rng.integers(0, 2, (6, 2)).astype(dtype), outs=4, sorted=srt, axis=0)
            c("Unique", rng.integers(0, 2, (2, 7, 1)).astype(dtype), outs=4, sorted=srt, axis=-2)
    c("Unique", x, outs=4, skip=(1, 2))
    for dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        c("RandomUniform", shape=[3, 4], seed=42.0, dtype=dtype, low=-1.0, high=3.0)
        c("RandomNormal", shape=[3, 5], seed=7.0, dtype=dtype, mean=1.0, scale=2.0)
        c("RandomUniformLike", f(2, 3), seed=1.0, dtype=dtype)
        c("RandomNormalLike", f(2, 3), seed=0.0, dtype=dtype)
    c("Bernoulli", rng.random((4, 5)).astype(np.float32), seed=3.0)
    c("Bernoulli", rng.random((4, 5)), seed=3.0, dtype=TensorProto.INT64)
    for how in ("none", "sum", "mean"):
        y = rng.integers(0, 5, (3, 4))
        logs = np.log(rng.dirichlet(np.ones(5), (3, 4)).transpose(0, 2, 1)).astype(np.float32)
        c("NegativeLogLikelihoodLoss", logs, y, reduction=how)
        c("NegativeLogLikelihoodLoss", logs, y.astype(np.int32), np.abs(f(5)), reduction=how, ignore_index=2)
        c("SoftmaxCrossEntropyLoss", f(3, 5, 4), y, outs=2, reduction=how)
        c("SoftmaxCrossEntropyLoss", f(4, 5), y[:, 0].repeat(2)[:4], np.abs(f(5)), outs=2, reduction=how, ignore_index=-1)
    for want in ([4, 9], [7, 3], [5, 6]):
        c("CenterCropPad", f(5, 6), np.int64(want), opset=18)
    c("CenterCropPad", f(5, 6, 3), np.int64([4, 9]), opset=18, axes=[0, -1])
    c("TensorScatter", f(2, 3, 8, 4), f(2, 3, 2, 4), i64(1, 6), opset=24)
    c("TensorScatter", f(2, 8, 4), f(2, 3, 4), opset=24, axis=1)
    c("TensorScatter", f(2, 3, 8, 4), f(2, 3, 3, 4), i64(6, 7), opset=24, mode="circular")


def quantized():
    """QuantizeLinear and DequantizeLinear of ai.onnx by blocks, of small types and with float16 scales."""
    c = lambda op, *a, **kw: case(op, *a, opset=21, domain="", **kw)
    for kind in (ml_dtypes.int4, ml_dtypes.uint4):
        x = rng.integers(0 if kind == ml_dtypes.uint4 else -8, 8, (6, 10)).astype(kind)
        c("DequantizeLinear", x, np.float32(0.3), np.asarray(2).astype(kind), fixed=(0, 2))
        c("DequantizeLinear", x, f(10), rng.integers(0, 8, 10).astype(kind), fixed=(0, 2))
        for axis, shape in ((0, (2, 10)), (1, (6, 3))):
            c("DequantizeLinear", x, f(*shape), rng.integers(0, 8, shape).astype(kind), fixed=(0, 2), axis=axis, block_size=4 if axis else 3)
            c("DequantizeLinear", x, h(*shape), None, fixed=(0,), axis=axis, block_size=4 if axis else 3)
    for kind in (np.int8, np.uint8):
        c("QuantizeLinear", f(3, 4), np.float32(0.05), kind(3))
        c("QuantizeLinear", h(3, 4), np.float16(0.05), kind(3))
        c("QuantizeLinear", f(4, 6), np.abs(f(2, 6)) + 0.01, np.zeros((2, 6), kind), axis=0, block_size=2)
        c("DequantizeLinear", rng.integers(0, 100, (3, 4)).astype(kind), np.float16(0.05), kind(3))
        c("DequantizeLinear", rng.integers(0, 100, (4, 6)).astype(kind), f(4, 2), np.zeros((4, 2), kind), axis=1, block_size=3)


for part in (quantized, others, samples, resizes, signals, standard, norms, gelus, products, nbits, gathers, qlinear, rotary, heads, lstm, groups, decoders, functions, scans):
    part()
with open(sys.argv[1], "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as z:
    z.write(json.dumps(cases, separators=(",", ":")).encode())
print(len(cases), "cases", file=sys.stderr)
