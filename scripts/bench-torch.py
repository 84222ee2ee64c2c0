"""Training speed of mm beside PyTorch: see bench-torch.sh.

The same models with as many parameters, the same batches, threads and update
(the norm of the gradient clipped to 1, fused AdamW with decay on matrices
alone) take turns: a run of `mm train`, as many steps of PyTorch eager, as many
compiled. One line a model and number of threads is printed for each of the
three: tokens a second by the median and the best step or group of steps, and
by processor time, each with mm's over it.
"""

import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

# name: model, sequences, positions, steps a turn, of which mm reports so many together
SIZES = {
    "1.3M": (dict(vocab_size=1024, dim=128, layers=4, heads=4, hidden=512), 4, 128, 60, 5),
    "1.3M-B16": (dict(vocab_size=1024, dim=128, layers=4, heads=4, hidden=512), 16, 128, 20, 2),
    "3.9M": (dict(vocab_size=1024, dim=192, layers=6, heads=6, hidden=768), 4, 128, 30, 3),
    "30M": (dict(vocab_size=8192, dim=512, layers=8, heads=8, hidden=1408, tied=True), 4, 256, 4, 1),
}


class Block(torch.nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.RMSNorm(dim, eps=1e-6)
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
        self.out = torch.nn.Linear(dim, dim, bias=False)
        self.norm2 = torch.nn.RMSNorm(dim, eps=1e-6)
        self.up = torch.nn.Linear(dim, 2 * hidden, bias=False)
        self.down = torch.nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class GPT(torch.nn.Module):
    def __init__(self, positions, vocab_size, dim, layers, heads, hidden, tied=False):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab_size, dim)
        torch.nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = torch.nn.ModuleList(Block(dim, heads, hidden) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(dim, eps=1e-6)
        self.head = torch.nn.Linear(dim, vocab_size, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        half = dim // heads // 2
        angles = torch.outer(torch.arange(positions), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Torch:
    """PyTorch's trainer of a model, eager or compiled."""

    def __init__(self, size, compiled):
        model, self.batch, self.positions, self.steps, _ = SIZES[size]
        torch.manual_seed(0)
        self.vocab = model["vocab_size"]
        self.model = GPT(self.positions, **model)
        self.forward = torch.compile(self.model) if compiled else self.model
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        gains = [p for p in self.model.parameters() if p.dim() != 2]
        groups = [dict(params=matrices, weight_decay=0.1), dict(params=gains, weight_decay=0.0)]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)
        for _ in range(3):
            self.step()

    def step(self):
        ids = torch.randint(self.vocab, (self.batch, self.positions + 1))
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(ids[:, :-1], ids[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def turn(self, wall, busy):
        tokens = self.batch * self.positions
        for _ in range(self.steps):
            begin, used = time.perf_counter(), cpu()
            self.step()
            wall.append(tokens / (time.perf_counter() - begin))
            busy.append(tokens / (cpu() - used))


class MM:
    """`mm train` on generated text, in a process of its own each turn."""

    def __init__(self, size, threads, program, work):
        self.model, self.batch, positions, steps, self.group = SIZES[size]
        self.program, self.threads, self.work = program, threads, pathlib.Path(work) / size
        self.config = self.work.with_suffix(".yaml")
        self.config.write_text(json.dumps({
            "name": "speed", "model": dict(self.model, context=positions), "data": {"generate": {"documents": 4000}},
            "tokenizer": {"pre": "mm-none"}, "batch_size": self.batch, "eval": {"windows": 1}, "log_every": self.group,
            "optimizer": {"weight_decay": 0.1, "lr": 1e-4}, "stop": {"steps": self.group + steps}}))

    def turn(self, wall, busy):
        command = [self.program, "train", self.config, "--out", self.work, "--threads", str(self.threads)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        last = None
        for line in (self.work / "metrics.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "started":
                self.parameters = event["parameters"]
            if event["event"] != "step" or event["step"] % self.group:
                continue
            if last and last["step"] + self.group == event["step"]:
                wall.append(event["tok_s"])
                busy.append((event["tokens"] - last["tokens"]) / (event["cpu_seconds"] - last["cpu_seconds"]))
            last = event
        shutil.rmtree(self.work)


def compare(size, threads, rounds, program, work):
    torch.set_num_threads(threads)
    ways = {"mm": MM(size, threads, program, work), "eager": Torch(size, False), "compiled": Torch(size, True)}
    rates = {name: ([], []) for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            way.turn(*rates[name])
    count = sum(p.numel() for p in ways["eager"].model.parameters())
    if count != ways["mm"].parameters:
        sys.exit(f"{size}: {count} parameters in PyTorch, {ways['mm'].parameters} in mm")
    figures = {name: (statistics.median(wall), max(wall), statistics.median(busy)) for name, (wall, busy) in rates.items()}
    for name, found in figures.items():
        own = figures["mm"]
        cells = "".join(f" {rate:9.0f} {mine / rate:6.2f}" for rate, mine in zip(found, own))
        print(f"{size:9} {threads:7} {name:9}{cells}", flush=True)


def main(program, work, rounds, sizes):
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; mm at {os.environ.get('MM_CPU') or 'the best level'}")
    print(f"{'model':9} {'threads':7} {'':9} {'median':>9} {'ratio':>6} {'best':>9} {'ratio':>6} {'a CPU s':>9} {'ratio':>6}")
    for size in sizes or SIZES:
        for threads in map(int, os.environ.get("MM_BENCH_THREADS", "1 2").split()):
            compare(size, threads, rounds, program, work)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
