"""Writes cases.json: one small model for each operator and what ONNX's
reference evaluator says of it. Needs the Python packages onnx and numpy.

    python onnx/engine/testdata/cases.py > onnx/engine/testdata/cases.json
"""

import base64
import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(7)
cases = []


def b64(m):
    return base64.b64encode(m.SerializeToString()).decode()


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def case(op, *inputs, outs=1, opset=21, name=None, **attrs):
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{k}" for k in range(outs)], **attrs)
    feeds = {n: np.asarray(a) for n, a in zip(names, inputs) if n}
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
    graph = helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info(o) for o in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    try:
        out = ReferenceEvaluator(model).run(None, feeds)
    except Exception as e:  # the reference lacks it: say so
        raise SystemExit(f"{op} {attrs}: {e!r}") from e
    cases.append({
        "name": (name or op) + f"/{len(cases)}", "model": b64(model),
        "in": {n: b64(numpy_helper.from_array(a)) for n, a in feeds.items()},
        "out": [b64(numpy_helper.from_array(np.asarray(o))) for o in out],
    })


x = f(2, 3)
img = f(1, 2, 5, 5)
for op in "Sqrt Log".split():
    case(op, np.abs(x))
for op in "Exp Sigmoid Tanh Softplus Softsign HardSwish Mish Erf Floor Ceil Round Reciprocal Sin Cos Tan Atan Sinh Cosh Asinh LeakyRelu Elu Celu Selu HardSigmoid ThresholdedRelu Shrink Gelu Relu Neg Abs Sign".split():
    case(op, x)
case("Gelu", x, approximate="tanh")
case("Swish", x, opset=24)
for op in "Asin Acos Atanh".split():
    case(op, np.tanh(x))
case("Acosh", np.abs(x) + 1)
for op in "Add Sub Mul Div Min Max".split():
    case(op, f(2, 1, 3), f(4, 1))
    case(op, np.int64([[7], [-5]]), np.int64([3, 2]))
case("Sum", x, f(3), f(2, 1))
case("Mean", x, f(3), f(2, 1))
case("Mod", i64(-7, 7, 5), i64(3, -3, 2))
case("Mod", x, f(3), fmod=1)
case("Pow", np.abs(x), np.float32([2, 0.5, 3]))
case("Pow", i64(2, -3), i64(5, 3))
for op in "Equal Less LessOrEqual Greater GreaterOrEqual".split():
    case(op, np.float32([1, 2, 3]), np.float32([[2], [3]]))
t, u = np.array([True, False, True]), np.array([[True], [False]])
for op in "And Or Xor".split():
    case(op, t, u)
case("Equal", t, u)
case("Not", t)
for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
    case(op, np.int32([12, 7]), np.int32([10, -1]))
case("BitwiseNot", np.uint8([1, 200]))
case("BitShift", np.uint8([1, 200]), np.uint8([3, 2]), direction="LEFT")
case("BitShift", np.uint8([1, 200]), np.uint8([3, 2]), direction="RIGHT")
case("Clip", x, np.float32(-0.5), np.float32(0.5))
case("Clip", x, None, np.float32(0.5))
case("PRelu", x, f(3))
case("IsNaN", np.float32([1, np.nan]))
case("IsInf", np.float32([1, np.inf, -np.inf]), detect_negative=0)
case("Where", t, f(2, 3), f(3))
for to in "FLOAT16 BFLOAT16 DOUBLE INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 BOOL".split():
    case("Cast", np.float32([0, 1.5, 100, 3]), to=getattr(TensorProto, to), name="Cast" + to)
case("Cast", np.float16([1.5, -2, 6e-8, np.inf]), to=TensorProto.FLOAT)
case("CastLike", x, i64(1))
case("Shape", img)
case("Shape", img, start=1, end=-1)
case("Size", img)
case("Reshape", img, i64(0, -1, 5))
case("Flatten", img, axis=2)
case("Squeeze", f(1, 3, 1), i64(0))
case("Squeeze", f(1, 3, 1))
case("Unsqueeze", x, i64(0, -1))
case("Identity", x)
case("Transpose", f(2, 3, 4), perm=[2, 0, 1])
case("Transpose", np.arange(6, dtype=np.uint8).reshape(2, 3))
case("Expand", f(3, 1), i64(2, 1, 4))
case("Tile", x, i64(2, 2))
case("Concat", x, f(2, 2), axis=1)
case("Split", f(2, 7), i64(3, 4), outs=2, axis=1)
case("Split", f(2, 7), outs=3, axis=1, num_outputs=3)
case("Slice", f(5, 6), i64(4, 1), i64(-6, 5), i64(0, 1), i64(-2, 2))
case("Gather", f(4, 3), np.int64([[0, -1], [2, 1]]), axis=0)
case("Gather", f(4, 3), i64(2, 0), axis=1)
case("GatherElements", f(2, 3), np.int64([[0, 2], [1, -1]]), axis=1)
case("GatherND", f(2, 3, 4), np.int64([[0, 1], [1, 2]]))
case("GatherND", f(2, 3, 4), np.int64([[1], [0]]), batch_dims=1)
case("ScatterElements", f(3, 3), np.int64([[0, 2]]), f(1, 2), axis=1)
case("ScatterElements", f(3, 3), np.int64([[0, 0]]), f(1, 2), axis=1, reduction="add")
case("ScatterND", f(4, 2), np.int64([[1], [3]]), f(2, 2))
case("ScatterND", f(4, 2), np.int64([[1], [1]]), f(2, 2), reduction="max")
for mode in ["constant", "reflect", "edge", "wrap"]:
    case("Pad", f(3, 4), i64(1, 2, 0, 1), mode=mode)
case("Pad", f(3, 4), i64(2, 1), np.float32(5), i64(1))
case("ConstantOfShape", i64(2, 3), value=helper.make_tensor("v", TensorProto.INT64, [1], [4]))
case("ConstantOfShape", i64(2, 3))
case("Range", np.float32(1), np.float32(4), np.float32(0.5))
case("EyeLike", f(3, 4), k=1)
case("OneHot", i64(0, 2, -1), np.int64(3), np.float32([0.5, 2]), axis=0)
case("NonZero", np.float32([[1, 0], [0, 2]]))
case("Compress", f(3, 4), np.array([False, True, True]), axis=0)
case("ReverseSequence", f(4, 2), i64(3, 2))
case("Trilu", f(3, 4), np.int64(1))
case("Trilu", f(3, 4), upper=0)
case("DepthToSpace", f(1, 8, 2, 3), blocksize=2)
case("DepthToSpace", f(1, 8, 2, 3), blocksize=2, mode="CRD")
case("SpaceToDepth", f(1, 2, 4, 6), blocksize=2)
for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split():
    case(op, f(2, 3, 4), i64(0, 2))
    case(op, f(2, 3), keepdims=0)
case("ReduceLogSum", np.abs(f(2, 3)), i64(1))
case("ReduceMax", np.array([[True, False]]), i64(1))
case("ReduceSum", np.int32([[1, 2], [3, 4]]), i64(0))
case("ArgMax", f(3, 4), axis=1)
case("ArgMin", f(3, 4), axis=0, keepdims=0)
case("ArgMax", i64(1, 3, 3), select_last_index=1)
case("TopK", f(3, 5), i64(2), outs=2)
case("TopK", f(5, 3), i64(2), outs=2, axis=0, largest=0)
case("CumSum", f(2, 4), np.int64(1))
case("CumSum", f(2, 4), np.int64(0), reverse=1, exclusive=1)
for op in "Softmax LogSoftmax Hardmax".split():
    case(op, f(2, 3, 4), axis=1)
    case(op, f(2, 3, 4))
case("MatMul", f(2, 3, 4), f(4, 5))
case("MatMul", f(2, 1, 3, 4), f(3, 4, 2))
case("MatMul", f(4), f(4, 3))
case("MatMul", np.int32([[1, 2]]), np.int32([[3], [4]]))
case("MatMul", f(2, 3).astype(np.float16), f(3, 4).astype(np.float16))
case("Gemm", f(3, 4), f(5, 4), f(5), transB=1, alpha=0.5, beta=2.0)
case("Gemm", f(4, 3), f(4, 5), transA=1)
for eq, a in [("ij,jk->ik", (f(2, 3), f(3, 4))), ("bij,bjk", (f(2, 2, 3), f(2, 3, 4))), ("...ii->...i", (f(2, 3, 3),)), ("ij->ji", (x,))]:
    case("Einsum", *a, equation=eq)
case("Conv", img, f(3, 2, 3, 3), f(3), pads=[1, 1, 1, 1])
case("Conv", img, f(4, 1, 3, 3), group=2, strides=[2, 1])
case("Conv", img, f(2, 1, 3, 3), f(2), group=2, dilations=[2, 1], pads=[2, 1, 2, 1])
case("Conv", img, f(3, 2, 1, 1))
case("Conv", f(1, 2, 9), f(3, 2, 3), auto_pad="SAME_UPPER", strides=[2])
case("Conv", f(1, 2, 3, 4, 5), f(2, 2, 2, 2, 2))
case("ConvTranspose", f(1, 2, 3, 3), f(2, 3, 3, 3), f(3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
case("MaxPool", img, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("MaxPool", img, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
case("AveragePool", img, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
case("AveragePool", img, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1, strides=[2, 2])
case("LpPool", img, kernel_shape=[2, 2], p=3)
case("GlobalAveragePool", img)
case("GlobalMaxPool", img)
case("BatchNormalization", img, f(2), f(2), f(2), np.abs(f(2)))
case("InstanceNormalization", img, f(2), f(2))
case("GroupNormalization", f(1, 4, 3, 3), f(4), f(4), num_groups=2)
case("LayerNormalization", f(2, 3, 4), f(4), f(4))
case("LayerNormalization", f(2, 3, 4), f(3, 4), axis=1, outs=3)
case("RMSNormalization", f(2, 4), f(4), opset=23)
case("LRN", f(1, 5, 2, 2), size=3)
case("LpNormalization", x, axis=1)
for op, g in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
    case(op, f(4, 2, 3), f(1, g * 5, 3), f(1, g * 5, 5), f(1, 2 * g * 5), hidden_size=5, outs=2)
case("GRU", f(4, 2, 3), f(1, 15, 3), f(1, 15, 5), f(1, 30), hidden_size=5, outs=2, linear_before_reset=1)
case("LSTM", f(4, 2, 3), f(1, 20, 3), f(1, 20, 5), f(1, 40), None, f(1, 2, 5), f(1, 2, 5), f(1, 15), hidden_size=5, outs=2)
case("Resize", img, None, np.float32([1, 1, 2, 1.5]), mode="linear")
case("Resize", img, None, None, i64(1, 2, 3, 8), mode="nearest")
case("Resize", img, None, np.float32([1, 1, 2, 2]), mode="linear", coordinate_transformation_mode="align_corners")
case("Resize", img, None, np.float32([1, 1, 2, 2]), mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
case("Dropout", x, outs=2)
case("NonMaxSuppression", np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3]]]), np.float32([[[0.9, 0.8, 0.7]]]), np.int64([3]), np.float32([0.5]), np.float32([0]))
case("QuantizeLinear", x, np.float32(0.1), np.uint8(128))
case("QuantizeLinear", x, np.float32([0.1, 0.2, 0.3]), np.int8([1, 2, 3]), axis=1)
case("DequantizeLinear", np.uint8([[1, 200, 3]]), np.float32([0.1, 0.2, 0.3]), np.uint8([1, 2, 3]), axis=1)
case("DynamicQuantizeLinear", x, outs=3)
u8 = lambda *s: rng.integers(0, 255, s).astype(np.uint8)
case("MatMulInteger", u8(2, 3), u8(3, 4), np.uint8(7), np.uint8(9))
case("ConvInteger", u8(1, 2, 4, 4), u8(3, 2, 3, 3), np.uint8(7))
case("QLinearMatMul", u8(2, 3), np.float32(0.1), np.uint8(7), u8(3, 4), np.float32(0.2), np.uint8(9), np.float32(3), np.uint8(100))
case("QLinearConv", u8(1, 2, 4, 4), np.float32(0.1), np.uint8(7), u8(3, 2, 3, 3), np.float32(0.2), np.uint8(9), np.float32(9), np.uint8(100), np.int32([5, 6, 7]))
b, t, h, g, d, w = 2, 3, 4, 2, 5, 3
state = f(b, g, d, w)
for rule, gates in (("linear", (None, None)), ("gated", (-np.abs(f(b, t, g)), None)), ("delta", (None, np.abs(f(b, t, 1)))), ("gated_delta", (-np.abs(f(b, t, g * d)), np.abs(f(b, t, g))))):
    case("LinearAttention", f(b, t, h * d), f(b, t, g * d), f(b, t, g * w), state, *gates, opset=27, outs=2, update_rule=rule, q_num_heads=h, kv_num_heads=g)
case("LinearAttention", f(b, t, h * d), f(b, t, g * d), f(b, t, g * w), opset=27, outs=2, update_rule="linear", q_num_heads=h, kv_num_heads=g, scale=0.5)
case("CausalConvWithState", f(2, 3, 6), f(3, 1, 4), f(3), f(2, 3, 3), opset=27, outs=2, activation="silu")
case("CausalConvWithState", f(2, 3, 2), f(3, 1, 4), opset=27, outs=2)
case("BitCast", f(2, 3), opset=26, to=TensorProto.INT32)
case("DFT", f(2, 5, 2), opset=20, inverse=1, onesided=1)
case("DFT", f(2, 5, 2), np.int64(7), opset=20, inverse=1, onesided=1)
print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
