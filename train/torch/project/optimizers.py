"""The optimizers of run.json with mm's formulas (train/optim).

All state is per parameter, so that torch.distributed.checkpoint stores it.
"""

import math

import torch
from torch.distributed.tensor import DTensor, distribute_tensor


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, betas):
        super().__init__(groups, dict(lr=0.0, betas=betas, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not self.state[p]:
                    self.state[p]["m"] = torch.zeros_like(p)
                m = self.state[p]["m"]
                step = torch.sign(b1 * m + (1 - b1) * p.grad)
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * step)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class ScheduleFree(torch.optim.Optimizer):
    """The parameters are y during training; average() replaces them by x."""

    def __init__(self, groups, betas, eps):
        super().__init__(groups, dict(lr=0.0, base=0.0, betas=betas, eps=eps, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), rate, base = group["betas"], group["lr"], group["base"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["z"], s["x"], s["v"] = p.detach().clone(), p.detach().clone(), torch.zeros_like(p)
                    s["step"], s["sum"] = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
                s["step"] += 1
                s["sum"] += base * base
                total = s["sum"].item()
                mix = base * base / total if total > 0 else 0.0
                root = math.sqrt(1 - b2 ** s["step"].item())
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                s["z"].sub_(rate * (p.grad / (s["v"].sqrt() / root + group["eps"]) + group["weight_decay"] * p))
                s["x"].add_(s["z"] - s["x"], alpha=mix)
                p.copy_((1 - b1) * s["z"] + b1 * s["x"])

    @torch.no_grad()
    def average(self):
        for group in self.param_groups:
            for p in group["params"]:
                if self.state[p]:
                    p.copy_(self.state[p]["x"])

    @torch.no_grad()
    def proceed(self):
        for group in self.param_groups:
            b1 = group["betas"][0]
            for p in group["params"]:
                if self.state[p]:
                    p.copy_((1 - b1) * self.state[p]["z"] + b1 * self.state[p]["x"])


class Muon(torch.optim.Optimizer):
    """Muon on hidden matrices, AdamW on everything else (groups with hidden False)."""

    def __init__(self, groups, betas, eps, momentum, ratio, iterations):
        self.momentum, self.ratio, self.iterations = momentum, ratio, iterations
        super().__init__(groups, dict(lr=0.0, betas=betas, eps=eps, weight_decay=0.0, hidden=False))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    (self.orthogonal if group["hidden"] else self.adam)(p, group)

    def orthogonal(self, p, group):
        if not self.state[p]:
            self.state[p]["momentum"] = torch.zeros_like(p)
        m, mu, rate = self.state[p]["momentum"], self.momentum, group["lr"] * self.ratio
        m.mul_(mu).add_(p.grad, alpha=1 - mu)
        u = (1 - mu) * p.grad + mu * m
        if isinstance(u, DTensor):  # the iteration needs the whole matrix
            whole = newton_schulz(u.full_tensor(), self.iterations)
            u = distribute_tensor(whole, u.device_mesh, u.placements)
        else:
            u = newton_schulz(u, self.iterations)
        rows, cols = p.shape
        p.mul_(1 - rate * group["weight_decay"]).add_(u, alpha=-rate * math.sqrt(max(1, rows / cols)))

    def adam(self, p, group):
        s, (b1, b2), rate = self.state[p], group["betas"], group["lr"]
        if not s:
            s["m"], s["v"], s["step"] = torch.zeros_like(p), torch.zeros_like(p), torch.zeros((), dtype=torch.float64)
        s["step"] += 1
        t = s["step"].item()
        s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
        s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
        root = s["v"].sqrt() / math.sqrt(1 - b2**t) + group["eps"]
        p.mul_(1 - rate * group["weight_decay"]).addcdiv_(s["m"], root, value=-rate / (1 - b1**t))


def newton_schulz(u, iterations):
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = u.shape[0] > u.shape[1]
    x = (u.T if tall else u).float()
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        g = x @ x.T
        x = a * x + (b * g + c * (g @ g)) @ x
    return x.T if tall else x


def build(o, groups):
    """The optimizer of run.json over groups of parameters."""
    betas = (o["beta1"], o["beta2"])
    if o["name"] == "lion":
        return Lion(groups, betas)
    if o["name"] == "schedule-free":
        return ScheduleFree(groups, betas, o["epsilon"])
    if o["name"] == "muon":
        return Muon(groups, betas, o["epsilon"], o["muon_momentum"], o["muon_ratio"], o["muon_steps"])
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=o["epsilon"])


def set_rate(optimizer, rate):
    """Sets the rate of a step; a group's factor is that of its tensors' names."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
        if "base" in group:
            group["base"] = rate


def schedule(s, free, step, done):
    """The factor of the peak rate at a step, done being the finished share of the run."""
    warmup, floor = s["warmup"], s["floor"]
    if step < warmup:
        return (step + 1) / warmup
    if free or s["kind"] == "constant":
        return 1.0
    done = min(max(done, 0.0), 1.0)
    fall = done
    if warmup > 0 and s["kind"] != "wsd":
        warm = min(done * warmup / step, 1.0)
        fall = (done - warm) / (1 - warm) if warm < 1 else 1.0
    if s["kind"] == "cosine":
        fall = (1 - math.cos(math.pi * fall)) / 2
    if s["kind"] == "wsd":
        stable = s["stable"]
        fall = max(0.0, (done - stable) / (1 - stable)) if stable < 1 else 0.0
    return 1 - (1 - floor) * fall
