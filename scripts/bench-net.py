"""Trains the networks of train/net's benchmarks in PyTorch and in mm by turns.

    bench-net.py PEER DIR THREADS STEPS [CASE...]

PEER is the test binary of train/net, which answers on stdin, see peer_test.go.
"""

import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

BATCH, WIDTH, HEADS, TURN = 16, 192, 6, 5


class Net(torch.nn.Module):
    """The weights by mm's names, and the layers that use them."""

    def __init__(self, folder):
        super().__init__()
        self.data, self.weights = {}, {}
        for path in sorted(folder.glob("*.npy")):
            name, value = path.name[:-4], torch.from_numpy(np.load(path))
            if name.startswith("data.") or name in ("targets", "wanted"):
                self.data[name] = value
            else:
                self.weights[name] = torch.nn.Parameter(value)
                self.register_parameter(name.replace(".", "_"), self.weights[name])

    def linear(self, name, x):
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def norm(self, name, x):
        return F.layer_norm(x, (WIDTH,), self.weights.get(name + ".gain"), self.weights.get(name + ".bias"))

    def mix(self, name, q, k, v):
        q, k, v = (x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.linear(name + ".out", y.transpose(1, 2).flatten(2))

    def block(self, name, x, c=None, memory=None):
        if c is not None:
            m = self.linear(name + ".modulation", F.silu(c)).chunk(6, dim=-1)
        y = self.norm(name + ".attention_norm", x)
        if c is not None:
            y = y * (1 + m[0]) + m[1]
        y = self.mix(name + ".attention", *self.linear(name + ".attention.qkv", y).chunk(3, dim=-1))
        x = x + y if c is None else x + y * m[2]
        if memory is not None:
            q = self.linear(name + ".memory.q", self.norm(name + ".memory_norm", x))
            x = x + self.mix(name + ".memory", q, *self.linear(name + ".memory.kv", memory).chunk(2, dim=-1))
        y = self.norm(name + ".mlp_norm", x)
        if c is not None:
            y = y * (1 + m[3]) + m[4]
        y = self.linear(name + ".mlp.down", F.gelu(self.linear(name + ".mlp.up", y)))
        return x + y if c is None else x + y * m[5]

    def vit(self, patch):
        x = self.data["data.image"].view(BATCH, 128, 128, 3).permute(0, 3, 1, 2)
        w = self.weights["patches.weight"].view(WIDTH, patch, patch, 3).permute(0, 3, 1, 2)
        x = F.conv2d(x, w, self.weights["patches.bias"], stride=patch).flatten(2).transpose(1, 2)
        x = x + self.weights["position.weight"]
        for i in range(4):
            x = self.block(f"block{i}", x)
        y = self.linear("class", self.norm("last", x).mean(1))
        return F.cross_entropy(y, self.data["targets"].long())

    def dit(self):
        half = 64
        w = 1000 * 10000 ** (-torch.arange(half) / half)
        angle = self.data["data.t"] * w
        c = self.linear("t.up", torch.cat([angle.cos(), angle.sin()], dim=-1))
        c = self.linear("c", F.silu(c))
        x = self.linear("in", self.data["data.x"]) + self.weights["position.weight"]
        for i in range(4):
            x = self.block(f"block{i}", x, c, self.data["data.text"])
        y = self.linear("v", self.norm("last", x))
        return F.mse_loss(y, self.data["wanted"]) / 2


    def cnn(self):
        x = self.data["data.image"].view(BATCH, 64, 64, 3).permute(0, 3, 1, 2)
        for i, (name, stride) in enumerate(zip((0, 2, 4, 6, 9, 12, "y"), (1, 2, 2, 1, 1, 1, 1))):
            name = name if name == "y" else f"conv2d{name}"
            if i in (4, 5):
                x = F.interpolate(x, scale_factor=2)
            w = self.weights[name + ".weight"]
            w = w.view(w.shape[0], 3, 3, -1).permute(0, 3, 1, 2)
            x = F.conv2d(x, w, self.weights[name + ".bias"], stride=stride, padding=1)
            if name != "y":
                x = F.gelu(x)
        return F.mse_loss(x.flatten(2).transpose(1, 2), self.data["wanted"]) / 2


def cpu(pid):
    """CPU seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(peer, folder, threads, steps, case):
    folder.mkdir()
    go = subprocess.Popen([peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(line):
        go.stdin.write(line + "\n")
        go.stdin.flush()
        return go.stdout.readline()

    ask(f"make {case} {BATCH} {threads} {folder}")
    net = Net(folder)
    loss = {"vit8": lambda: net.vit(8), "vit16": lambda: net.vit(16), "dit": net.dit, "cnn": net.cnn}[case]
    move = torch.optim.AdamW(net.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    losses, took = {"mm": [], "torch": []}, {"mm": [], "torch": []}

    def theirs(n):
        for _ in range(n):
            move.zero_grad()
            value = loss()
            value.backward()
            move.step()
            losses["torch"].append(value.item())

    for at in range(0, steps, TURN):
        n = min(TURN, steps - at)
        for who in ("mm", "torch") if at // TURN % 2 else ("torch", "mm"):
            pid = go.pid if who == "mm" else os.getpid()
            start, wall = cpu(pid), time.perf_counter()
            if who == "mm":
                losses["mm"] += map(float, ask(f"train {n}").split())
            else:
                theirs(n)
            took[who].append(((cpu(pid) - start) / n, (time.perf_counter() - wall) / n))
    go.stdin.close()
    go.wait()
    a, b = np.array(losses["mm"]), np.array(losses["torch"])
    best = {who: [min(t[i] for t in turns) for i in range(2)] for who, turns in took.items()}
    print(f"{case:6} {threads:7} {best['mm'][0]:10.3f} {best['torch'][0]:12.3f} {best['torch'][0] / best['mm'][0]:6.2f}"
          f" {best['torch'][1] / best['mm'][1]:6.2f}   {a[0]:.4f} {a[-1]:.4f}   {b[0]:.4f} {b[-1]:.4f}   {np.max(np.abs(a - b) / b[0]):.1e}", flush=True)


def main():
    peer, folder, threads, steps, *cases = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; CPU seconds a step, the least of turns of {TURN}; ratios of CPU and of wall time")
    print("case   threads  mm s/step torch s/step    cpu   wall   losses of mm    of torch        greatest difference over the first")
    for case in cases or ["vit16", "vit8", "dit", "cnn"]:
        compare(peer, pathlib.Path(folder) / case, int(threads), int(steps), case)


main()
