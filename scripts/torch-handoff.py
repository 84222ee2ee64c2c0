"""Losses of `mm train export torch` beside mm's: see torch-handoff.sh.

For each recipe: 20 steps of `mm train`, of the exported project in one process,
and in two processes with FSDP2 and with DDP (gloo, CPU), all in float32. One
line a step, then the largest difference. A difference above LIMIT fails.
"""

import json
import os
import pathlib
import subprocess
import sys

LIMIT = 2e-4  # nats a token, after 20 steps of float32 sums in other orders
SMALL = dict(vocab_size=512, dim=64, layers=3, heads=4, context=64)
BASE = {
    "seed": 7, "model": dict(SMALL, kv_heads=2, tied=True), "data": {"generate": {"documents": 400}},
    "tokenizer": {"pre": "mm-none", "control": ["<|end|>"], "eos": "<|end|>"}, "batch_size": 4, "seq_len": 48, "accumulate": 2,
    "optimizer": {"weight_decay": 0.1, "lr": 3e-3}, "schedule": {"warmup": 5, "floor": 0.1}, "log_every": 1, "stop": {"steps": 20},
}
RECIPES = {
    "adamw": {},
    "lion": dict(optimizer={"name": "lion", "lr": 3e-4, "weight_decay": 0.1}, schedule={"kind": "cosine", "warmup": 3}, clip=0.5),
    "muon": dict(optimizer={"name": "muon", "lr": 3e-3, "weight_decay": 0.05, "rates": {"token_embd.*": 0.5}}, schedule={"kind": "linear"}),
    "schedule-free": dict(optimizer={"name": "schedule-free", "lr": 3e-3, "weight_decay": 0.1}, schedule={"warmup": 4}),
    "forms": dict(model=dict(SMALL, qk_norm=True, embed_norm=True, rope="interleaved", activation="relu2"), init={"residual": "scaled"},
                  schedule={"kind": "constant"}, clip=-1, accumulate=1, stop={"tokens": 20 * 4 * 48}),
    "boundary": dict(freeze={"policy": "boundary"}),
    "lora": dict(base="adamw/run/last.safetensors", lora={"rank": 4, "alpha": 8, "targets": ["attn_q", "attn_v", "ffn_down"]}),
    "context": dict(data={"files": ["tools.jsonl"], "format": "jsonl", "keys": ["question", "answer", "result", "end"], "given": ["question", "result"]}),
}


def steps(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] in ("step", "eval")]


def run(*command, **env):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1", **env))
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def project(mm, work, name, recipe):
    """Trains a recipe with mm, exports it, and trains it in PyTorch three times."""
    folder = work / name
    folder.mkdir()
    config = work / f"{name}.yaml"
    config.write_text(json.dumps(recipe))
    run(mm, "train", config, "--out", folder / "run")
    run(mm, "train", "export", "torch", config, "--out", folder / "project")
    losses = {"mm": steps(folder / "run" / "metrics.jsonl")}
    program = folder / "project" / "train.py"
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, program]
    for label, command in {
        "one": [sys.executable, program], "fsdp": two + ["--strategy", "fsdp"], "ddp": two + ["--strategy", "ddp"],
    }.items():
        run(*command, "--out", folder / label, "--device", "cpu")
        losses[label] = steps(folder / label / "metrics.jsonl")
    return losses


def show(name, losses):
    print(f"\n{name}\n step        mm       one process   2, FSDP2      2, DDP")
    rows = list(zip(*losses.values(), strict=True))
    for i, row in enumerate(rows):
        print(f" {i + 1 if i < len(rows) - 1 else 'held':>4}" + "".join(f"  {v:12.7f}" for v in row))
    worst = [max(abs(row[0] - row[i]) for row in rows) for i in range(1, 4)]
    print("  max difference" + "".join(f"  {w:12.2e}" for w in worst), flush=True)
    return max(worst)


def main():
    mm, work, only = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    with open(work / "tools.jsonl", "w") as f:
        for i in range(300):
            f.write(json.dumps(dict(question=f"What is {i} plus {i * 7 % 13}?", answer=f"[{i}+{i * 7 % 13}]", result=f"={i + i * 7 % 13}",
                                    end=f" It is {i + i * 7 % 13}.")) + "\n")
    worst = {}
    for name, change in RECIPES.items():
        if only and name not in only and not (name == "adamw" and "lora" in only):
            continue
        worst[name] = show(name, project(mm, work, name, {**BASE, "name": name, **change}))
    print("\n" + "\n".join(f"{name:14} {w:.2e} {'' if w <= LIMIT else 'too large'}" for name, w in worst.items()))
    sys.exit(any(w > LIMIT for w in worst.values()))


main()
