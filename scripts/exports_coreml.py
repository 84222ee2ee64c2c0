"""Replays an ML program of Core ML in PyTorch, from the program that coremltools loads and checks."""
import os

import numpy as np
import torch
import torch.nn.functional as F


def load(path):
    return functions(path)["main"]


def functions(path):
    """The functions of a package; several share their states, 16-bit zeros at first."""
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto import load as milproto
    folder = os.path.dirname(path)
    model = ct.models.MLModel(folder, skip_model_load=True)
    spec = model.get_spec()
    weights = os.path.join(folder, "Data", "com.apple.CoreML", "weights")
    program = milproto.load(spec, specification_version=spec.specificationVersion, file_weights_dir=weights)
    described = {f.name: f for f in spec.description.functions} or {"main": spec.description}
    assert described.keys() == program.functions.keys(), "functions of the description differ"
    states, out = {}, {}
    for name, function in program.functions.items():
        declared = {i.name: list(i.type.multiArrayType.shape) for i in described[name].input}
        kept = {s.name: list(s.type.stateType.arrayType.shape) for s in described[name].state}
        assert list(declared) + list(kept) == list(function.inputs), "inputs of the description differ"
        for key, v in function.inputs.items():
            shape = list(v.sym_type.wrapped_type().get_shape() if key in kept else v.shape)
            assert shape == (declared | kept)[key], f"input {key}: {shape}, declared {(declared | kept)[key]}"
        for key, shape in kept.items():
            assert shape == list(states.setdefault(key, torch.zeros(shape, dtype=torch.float16)).shape), f"state {key} has two shapes"
        out[name] = lambda feeds, function=function: replay(function, feeds, states)
    return out


def replay(function, feeds, states):
    env = {name: torch.from_numpy(np.ascontiguousarray(feeds[name])) for name in function.inputs if name not in states}

    def value(v):
        if isinstance(v, (list, tuple)):
            return [value(x) for x in v]
        if v is None:
            return None
        if v.name in env:
            return env[v.name]
        return v.val

    with torch.no_grad():
        for op in function.operations:
            if op.op_type == "const":
                v = op.outputs[0].val
                env[op.outputs[0].name] = torch.from_numpy(np.asarray(v).copy()) if isinstance(v, (np.ndarray, np.generic)) and np.asarray(v).dtype.kind in "fiub" else v
                continue
            if op.op_type.startswith("constexpr"):
                env[op.outputs[0].name] = torch.from_numpy(np.asarray(op.materialized_val_inference()))
                continue
            if op.op_type == "read_state":
                env[op.outputs[0].name] = states[op.input.name]
                continue
            args = {k: value(v) for k, v in op.inputs.items() if v is not None and getattr(v, "name", None) not in states}
            if op.op_type == "coreml_update_state":
                new, old = args["value"], states[op.state.name]
                assert new.shape == old.shape and new.dtype == old.dtype, f"state {op.state.name}: {new.dtype} {tuple(new.shape)}"
                states[op.state.name] = env[op.outputs[0].name] = new
                continue
            y = step(op.op_type, args)
            want = tuple(op.outputs[0].shape)
            assert tuple(y.shape) == want, f"{op.op_type} {op.name}: {tuple(y.shape)}, declared {want}"
            env[op.outputs[0].name] = y
    return {v.name: env[v.name].numpy() for v in function.outputs}


def ints(t):
    return [int(v) for v in np.asarray(t).ravel()]


def padded(a, k, value=0.0):
    p = ints(a["pad"])
    flat = []
    for i in reversed(range(len(p) // 2)):
        flat += [p[2 * i], p[2 * i + 1]]
    return F.pad(a["x"], flat, value=value), p


TYPES = {"fp32": torch.float32, "fp16": torch.float16, "int32": torch.int32, "bool": torch.bool}

UNARY = {"abs": torch.abs, "exp": torch.exp, "sqrt": torch.sqrt, "erf": torch.erf, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
         "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softplus": F.softplus, "logical_not": torch.logical_not, "identity": lambda x: x}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "real_div": torch.div, "pow": torch.pow, "minimum": torch.minimum, "maximum": torch.maximum, "equal": torch.eq,
          "less": torch.lt, "greater": torch.gt, "logical_and": torch.logical_and, "logical_or": torch.logical_or, "floor_div": torch.floor_divide}


def step(kind, a):
    if kind in UNARY:
        return UNARY[kind](a["x"])
    if kind in BINARY:
        return BINARY[kind](torch.as_tensor(a["x"]), torch.as_tensor(a["y"]))
    x = a.get("x")
    if kind == "cast":
        return x.to(TYPES[a["dtype"]])
    if kind == "log":
        return torch.log(x + a["epsilon"])
    if kind == "gelu":
        return F.gelu(x, approximate="none" if a["mode"] == "EXACT" else "tanh")
    if kind == "leaky_relu":
        return F.leaky_relu(x, float(a["alpha"]))
    if kind == "elu":
        return F.elu(x, float(a["alpha"]))
    if kind == "sigmoid_hard":
        return torch.clamp(x * float(a["alpha"]) + float(a["beta"]), 0, 1)
    if kind == "clip":
        return torch.clamp(x, float(a["alpha"]), float(a["beta"]))
    if kind == "softmax":
        return torch.softmax(x, int(a["axis"]))
    if kind == "linear":
        return F.linear(x, a["weight"], a.get("bias"))
    if kind == "matmul":
        x, y = (v.transpose(-1, -2) if f else v for v, f in ((x, a["transpose_x"]), (a["y"], a["transpose_y"])))
        return x @ y
    if kind == "layer_norm":
        axes = ints(a["axes"])
        return F.layer_norm(x, [x.shape[i] for i in axes], a.get("gamma"), a.get("beta"), float(a["epsilon"]))
    if kind.startswith("reduce_"):
        f = {"reduce_mean": torch.mean, "reduce_sum": torch.sum, "reduce_max": torch.amax, "reduce_min": torch.amin}[kind]
        return f(x, dim=ints(a["axes"]), keepdim=bool(a["keep_dims"]))
    if kind == "conv":
        y, _ = padded(a, 0)
        f = F.conv1d if y.dim() == 3 else F.conv2d
        return f(y, a["weight"], a.get("bias"), stride=ints(a["strides"]), dilation=ints(a["dilations"]), groups=int(a["groups"]))
    if kind == "conv_transpose":
        p = ints(a["pad"])
        f = F.conv_transpose1d if x.dim() == 3 else F.conv_transpose2d
        y = f(x, a["weight"], a.get("bias"), stride=ints(a["strides"]), dilation=ints(a["dilations"]), groups=int(a["groups"]))
        for i, n in enumerate(ints(a["output_shape"])[2:]):
            y = y.narrow(2 + i, p[2 * i], n)
        return y
    if kind == "max_pool":
        y, _ = padded(a, 0, -float("inf"))
        return (F.max_pool1d if y.dim() == 3 else F.max_pool2d)(y, ints(a["kernel_sizes"]), ints(a["strides"]))
    if kind == "avg_pool":
        y, p = padded(a, 0)
        f = F.avg_pool1d if y.dim() == 3 else F.avg_pool2d
        out = f(y, ints(a["kernel_sizes"]), ints(a["strides"]))
        if a["exclude_padding_from_average"] and any(p):
            out = out / f(padded({"x": torch.ones_like(x), "pad": a["pad"]}, 0)[0], ints(a["kernel_sizes"]), ints(a["strides"]))
        return out
    if kind == "reshape":
        return x.reshape(ints(a["shape"]))
    if kind == "transpose":
        return x.permute(ints(a["perm"]))
    if kind == "concat":
        return torch.cat(a["values"], int(a["axis"]))
    if kind == "slice_by_index":
        y = x
        for d, (b, e, s, m) in enumerate(zip(ints(a["begin"]), ints(a["end"]), ints(a["stride"]), ints(a["end_mask"]))):
            index = range(x.shape[d])[slice(b, None if m else e, s)]
            y = y.index_select(d, torch.tensor(list(index), dtype=torch.int64))
        return y
    if kind == "gather":
        i = torch.as_tensor(a["indices"]).long()
        axis = int(a["axis"])
        y = torch.index_select(torch.as_tensor(x), axis, i.reshape(-1))
        return y.reshape(list(x.shape[:axis]) + list(i.shape) + list(x.shape[axis + 1:]))
    if kind == "tile":
        return x.repeat(ints(a["reps"]))
    if kind == "select":
        return torch.where(torch.as_tensor(a["cond"]), torch.as_tensor(a["a"]), torch.as_tensor(a["b"]))
    if kind == "pad":
        p = ints(a["pad"])
        flat = []
        for i in reversed(range(len(p) // 2)):
            flat += [p[2 * i], p[2 * i + 1]]
        if a["mode"] == "constant":
            return F.pad(x, flat, value=float(a["constant_val"]))
        return F.pad(x, flat, mode=a["mode"])
    if kind == "upsample_nearest_neighbor":
        return F.interpolate(x, scale_factor=(float(a["scale_factor_height"]), float(a["scale_factor_width"])), mode="nearest")
    if kind == "upsample_bilinear":
        size = [round(x.shape[2] * float(a["scale_factor_height"])), round(x.shape[3] * float(a["scale_factor_width"]))]
        if not a["align_corners"] and not a["half_pixel_centers"]:
            raise NotImplementedError("asymmetric bilinear")
        return F.interpolate(x, size=size, mode="bilinear", align_corners=bool(a["align_corners"]))
    raise NotImplementedError(kind)
