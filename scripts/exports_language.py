"""Continues a text with exported language models in their vendors' software, beside mm's core.

exports_language.py FOLDER: what the tests wrote to out/FORMAT-language.json. Prints a table: how many
of the core's greedy tokens are equal, and, where they first differ, how far apart the two logits are.
With fp32 a difference of logits above 0.05 is an error.
"""
import json
import os
import sys
import time

import numpy as np

FULL = {"fp32"}


def executorch(row):
    import exports_mobile
    load = exports_mobile.program(row["path"])
    methods = {name: load(name) for name in row["record"]["graphs"]}

    def run(name, feeds):
        return [np.array(v) for v in methods[name]([feeds[k] for k in row["record"]["inputs"]])]
    return run


class Growing:
    """A model of OpenVINO GenAI in its own runtime: variables hold the caches."""

    def __init__(self, path):
        import openvino as ov
        core = ov.Core()
        model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 2})
        self.request = model.create_infer_request()
        self.request.reset_state()

    def read(self, record, caches, tokens, position):
        n, end = len(tokens), position + len(tokens)
        out = self.request.infer({"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, end), np.int64),
                                  "position_ids": np.arange(position, end, dtype=np.int64)[None], "beam_idx": np.zeros(1, np.int32)})
        return out["logits"][0, n - 1], end


def genai(row):
    """The tokens of openvino_genai.LLMPipeline, and their time in ms."""
    import openvino as ov
    import openvino_genai
    folder = os.path.dirname(row["path"])
    tokenizer = openvino_genai.Tokenizer(next(p for p in row["files"] if p.endswith(".vocab.gguf")))
    out = []
    for backend in ("SDPA", "PA"):
        pipe = openvino_genai.LLMPipeline(folder, tokenizer, "CPU", INFERENCE_PRECISION_HINT="f32", ATTENTION_BACKEND=backend)
        config = openvino_genai.GenerationConfig(max_new_tokens=len(row["tokens"]), ignore_eos=True, do_sample=False)
        begin = time.perf_counter()
        got = pipe.generate(ov.Tensor(np.array([row["prompt"]], np.int64)), config).tokens[0]
        out.append((backend, list(got), (time.perf_counter() - begin) * 1000 / len(got)))
    return out


def openvino(row):
    import openvino as ov
    if row["stateful"]:
        return Growing(row["path"])
    core, models = ov.Core(), {}
    for path in row["files"]:
        for name in row["record"]["graphs"]:
            if path.endswith(f"-{name}.xml"):
                models[name] = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 2})

    def run(name, feeds):
        m = models[name]
        out = m({i: next(v for k, v in feeds.items() if k in i.get_names()).astype(i.get_element_type().to_dtype()) for i in m.inputs})
        return [out[next(o for o in m.outputs if k in o.get_names())] for k in row["record"]["outputs"]]
    return run


def coreml(row):
    import exports_coreml
    models = exports_coreml.functions(row["path"]) if row["stateful"] else {}
    for path in row["files"]:
        for name in row["record"]["graphs"]:
            if not row["stateful"] and path.endswith(f"-{name}.mlpackage/Manifest.json"):
                models[name] = exports_coreml.load(path)

    def run(name, feeds):
        out = models[name]({k: v.astype(np.int32) if v.dtype == np.int64 else v for k, v in feeds.items()})
        return [out[k] for k in row["record"]["outputs"]]
    return run


JUDGES = {"executorch": executorch, "openvino": openvino, "coreml": coreml}


def read(run, record, caches, tokens, position):
    if isinstance(run, Growing):
        return run.read(record, caches, tokens, position)
    return passes(run, record, caches, tokens, position)


def passes(run, record, caches, tokens, position):
    """Feeds tokens, several at a time where they fill a pass or the window has room for its rest."""
    n, logits = record["positions"], None
    while tokens:
        name, width = ("prefill", n) if len(tokens) > 1 and position + n <= record["window"] else ("decode", 1)
        part, tokens = tokens[:width], tokens[width:]
        feeds = {"tokens": np.array([part + [0] * (width - len(part))], np.int64), "position": np.array([position], np.int64), **caches}
        out = dict(zip(record["outputs"], run(name, feeds)))
        for k in caches:
            caches[k] = out[k.replace("past_", "next_")]
        logits, position = out["logits"][0, len(part) - 1], position + len(part)
    return logits, position


def generated(head, row):
    """Rows of openvino_genai, and how many of them are wrong."""
    try:
        results = genai(row)
    except ImportError as e:
        print(head, f"skipped: {e} | | |")
        return 0
    wrong = 0
    for backend, got, ms in results:
        equal = next((i for i, (a, b) in enumerate(zip(got, row["tokens"])) if a != b), len(got))
        wrong += row["precision"] in FULL and equal < len(row["tokens"])
        print(head, f"{equal} of {len(row['tokens'])} by openvino_genai, {backend} | | {ms:.1f} |", flush=True)
    return wrong


def main():
    folder, bad = sys.argv[1], 0
    print("| model | format | precision | equal tokens | first difference: logits apart | ms a token |\n|---|---|---|---|---|---|")
    for format, judge in JUDGES.items():
        listing = os.path.join(folder, "out", format + "-language.json")
        if not os.path.exists(listing):
            continue
        for row in json.load(open(listing)):
            head = f"| {row['model']} | {format}{' with states' if row['stateful'] else ''} | {row['precision']} |"
            if row.get("refused"):
                print(head, "refused:", row["refused"][:160], "| | |")
                continue
            try:
                run = judge(row)
            except ImportError as e:
                print(head, f"skipped: {e} | | |")
                continue
            r = row["record"]
            shape = (1, r["kv_heads"], r["window"], r["head_dim"])
            caches = {k: np.zeros(shape, np.float32) for k in r["inputs"] if k.startswith("past_")}
            logits, position = read(run, r, caches, row["prompt"], 0)
            equal, gap, begin, steps = 0, 0.0, time.perf_counter(), 0
            for want in row["tokens"]:
                got = int(np.argmax(logits))
                if got != want:
                    gap = float(logits[got] - logits[want])
                    break
                equal += 1
                logits, position = read(run, r, caches, [want], position)
                steps += 1
            ms = (time.perf_counter() - begin) * 1000 / max(1, steps)
            bad += row["precision"] in FULL and gap > 0.05
            print(head, f"{equal} of {len(row['tokens'])} | {gap:.4f} | {ms:.1f} |", flush=True)
            if isinstance(run, Growing):
                bad += generated(head, row)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
