# Changes the keys of config.json of small models one at a time, and writes what
# transformers computes then.
#
#   python keys.py MODELS OUT [NAME...]
#
# MODELS is what models.py wrote; without names, the first model of each class is
# taken, and the first with and without experts. OUT/NAME.json holds the tokens, the positions that are compared and the
# variants: the key, its configuration, and the outcome. It is "same" or "changed"
# with the logits at OUT/FILE (float32), "misfit" if the weights do not fit the
# configuration, or "fails".
import copy
import json
import logging
import os
import sys
import tempfile

import numpy as np
import torch
import transformers as T

torch.set_num_threads(1)
T.logging.set_verbosity(logging.CRITICAL)
LENGTH, EVERY = 96, 8
ACTIVATIONS = ["silu", "gelu", "relu", "gelu_new", "relu2", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu"]
WORDS = ["full_attention", "sliding_attention", "linear_attention", "conv", "softmax", "sigmoid", "greedy", "noaux_tc", "group_limited_greedy", "rope", "nope", "default", "float16"]
# Keys of names, of training and of generation, which are taken as they are.
SKIPPED = {"architectures", "model_type", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id", "quantization_config"}


def changes(key, v):
    """Other values of a key."""
    if isinstance(v, bool):
        return [not v]
    if isinstance(v, int):
        return [v + 1, 2 * v or 3, 0] if v else [1, 3]
    if isinstance(v, float):
        return [2 * v or 0.5, 0.37 * v + 0.01, 0.0] if v else [0.5, 2.0]
    if isinstance(v, str):
        return [w for w in (ACTIVATIONS if "act" in key else WORDS) if w != v]
    if v is None:
        return [3, 0.5, True, 2 * LENGTH // 3]
    if isinstance(v, list) and v:
        rest = [v[:-1], v[::-1]]
        if all(isinstance(x, (int, float)) for x in v):
            rest.append([x * 2 for x in v])
        if all(isinstance(x, str) for x in v):
            rest += [[w] * len(v) for w in sorted(set(v))]
        return rest
    return [[1], {"a": 1}]


def variants(config, defaults):
    """Configurations that differ in one key, with its name."""
    def walk(node, path):
        for key in sorted(node):
            if not path and key in SKIPPED:
                continue
            at = path + [key]
            yield at, None
            if isinstance(node[key], dict) and node[key]:
                yield from walk(node[key], at)
                continue
            for v in changes(key, node[key]) + ([None] if node[key] is not None else []):
                yield at, (v,)
    for path, new in walk({**defaults, **config}, []):
        c = copy.deepcopy(config)
        node, there = c, True
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                there = False
                break
            node = node[key]
        if not there or new is None and path[-1] not in node:
            continue
        if new is None:
            del node[path[-1]]
        else:
            node[path[-1]] = new[0]
        yield ".".join(path) + (" absent" if new is None else " = " + json.dumps(new[0])), c
    yield from ropes(config)


def ropes(config):
    """The rotary embedding in the older spelling, and with each scaling."""
    params = config.get("rope_parameters")
    if not isinstance(params, dict) or "full_attention" in params:
        return
    theta = params.get("rope_theta", 10000.0)
    old = {k: v for k, v in params.items() if k not in ("rope_theta", "partial_rotary_factor")}
    plain = {k: v for k, v in config.items() if k != "rope_parameters"}
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in params:
            plain[key] = params[key]
    yield "older spelling", {**plain, "rope_scaling": None if old.get("rope_type") == "default" else old}
    yield "older spelling of the type", {**plain, "rope_scaling": {**{k: v for k, v in old.items() if k != "rope_type"}, "type": old.get("rope_type", "default")}}
    scalings = [dict(rope_type="linear", factor=3.0), dict(rope_type="dynamic", factor=3.0), dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
                dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, truncate=False), dict(rope_type="yarn", factor=4.0),
                dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, mscale=0.7, mscale_all_dim=0.5),
                dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64), dict(rope_type="proportional", factor=2.0), dict(rope_type="ntk", factor=2.0)]
    for s in scalings:
        keep = {k: v for k, v in params.items() if k in ("rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")}
        yield "rope_parameters " + json.dumps(s), {**config, "rope_parameters": {**keep, **s}}
        yield "rope_scaling " + json.dumps(s), {**plain, "rope_scaling": s}


def compute(folder, config, ids):
    """The outcome and the logits."""
    with tempfile.TemporaryDirectory() as at:
        for name in os.listdir(folder):
            if name.endswith((".safetensors", ".safetensors.index.json")):
                os.symlink(os.path.join(folder, name), os.path.join(at, name))
        with open(os.path.join(at, "config.json"), "w") as f:
            json.dump(config, f)
        try:
            model, info = T.AutoModelForCausalLM.from_pretrained(at, attn_implementation="eager", dtype=torch.float32, output_loading_info=True, local_files_only=True)
            if any(info.get(k) for k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")):
                return "misfit", None
            with torch.no_grad():
                x = model.eval()(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()[EVERY - 1::EVERY]
            return ("fails", None) if not np.isfinite(x).all() else ("same", x)
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a wrong value leads to
            return "fails", None


def main(models, out, names):
    os.makedirs(out, exist_ok=True)
    classes = {}
    for name in sorted(os.listdir(models)):
        path = os.path.join(models, name, "config.json")
        if os.path.exists(path):
            with open(path) as f:
                config = json.load(f)
            if config["model_type"] != "deepseek":
                classes.setdefault(name if name in names else (config["architectures"][0], bool(config.get("enable_moe_block") or "moe" in (config.get("layers_block_type") or []))), (name, config))
    for name, config in sorted(classes.values()):
        if names and name not in names or os.path.exists(os.path.join(out, name + ".json")):
            continue
        folder = os.path.join(models, name)
        ids = [int(x) for x in np.random.default_rng(1).integers(3, config["vocab_size"], LENGTH)]
        outcome, plain = compute(folder, config, ids)
        assert outcome == "same", name
        plain.astype("<f4").tofile(os.path.join(out, name + ".f32"))
        defaults = {k: v for k, v in T.AutoConfig.for_model(config["model_type"]).to_dict().items() if k not in config}
        rows = []
        for what, c in variants(config, defaults):
            outcome, x = compute(folder, c, ids)
            row = dict(what=what, config=c, outcome=outcome)
            if x is not None:
                row["logits"] = name + ".f32"
                if x.shape != plain.shape or not np.array_equal(x, plain):
                    row["logits"] = f"{name}.{len(rows)}.f32"
                    x.astype("<f4").tofile(os.path.join(out, row["logits"]))
                    if x.shape == plain.shape and np.linalg.norm(x - plain) > 1e-5 * np.linalg.norm(plain):
                        row["outcome"] = "changed"
            rows.append(row)
        with open(os.path.join(out, name + ".json"), "w") as f:
            json.dump(dict(folder=folder, tokens=ids, every=EVERY, variants=rows), f)
        print(name, len(rows), flush=True)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
