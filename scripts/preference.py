"""Losses, gradients and adapters of mm beside PyTorch, TRL and PEFT.

  preference.py golden FILE     writes losses and derivatives by PyTorch's formulas
  preference.py trl DIR         compares DIR (written by mm's test) with TRL's DPOTrainer

The formulas are those of trl/trainer/dpo_trainer.py, kto_trainer.py and
experimental/orpo/orpo_trainer.py, in float64.
"""

import json
import math
import random
import sys

import torch
import torch.nn.functional as F


def log1mexp(x):
    return torch.where(x < -math.log(2), torch.log1p(-torch.exp(x)), torch.log(-torch.expm1(x)))


def loss(objective, nats, reference, tokens):
    """Sum of the losses of pairs; rows are chosen, rejected and, for KTO, unrelated."""
    kind, beta, eps = objective["kind"], objective["beta"], objective.get("smoothing", 0.0)
    rows = 3 if kind == "kto" else 2
    logps, ref = -nats.view(-1, rows), -reference.view(-1, rows)
    n = tokens.view(-1, rows)
    ratio = logps - ref
    if kind == "dpo":
        delta = ratio[:, 0] - ratio[:, 1]
        return (-F.logsigmoid(beta * delta) * (1 - eps) - F.logsigmoid(-beta * delta) * eps).sum()
    if kind == "ipo":
        return ((ratio[:, 0] / n[:, 0] - ratio[:, 1] / n[:, 1] - 1 / (2 * beta)) ** 2).sum()
    if kind == "orpo":
        a, b = logps[:, 0] / n[:, 0], logps[:, 1] / n[:, 1]
        odds = (a - b) - (log1mexp(a) - log1mexp(b))
        return (-a - beta * F.logsigmoid(odds)).sum()
    kl = ratio[:, 2].mean().detach().clamp(min=0)
    good, bad = torch.sigmoid(beta * (ratio[:, 0] - kl)), torch.sigmoid(beta * (kl - ratio[:, 1]))
    return ((1 - good) + (1 - bad)).sum() / 2


def golden(path):
    random.seed(7)
    cases = []
    for kind in ["dpo", "ipo", "orpo", "kto"]:
        for i in range(6):
            objective = {"kind": kind, "beta": round(random.uniform(0.05, 1.5), 3)}
            if kind == "dpo" and i % 2:
                objective["smoothing"] = round(random.uniform(0.01, 0.4), 3)
            rows = 3 if kind == "kto" else 2
            answers = []
            for _ in range(rows * random.randint(1, 3)):
                n = random.randint(1, 40)
                nats = n * random.uniform(0.02, 3)
                answers.append([nats, max(nats + random.gauss(0, 4), 0.1), n])
            t = torch.tensor(answers, dtype=torch.float64)
            nats = t[:, 0].clone().requires_grad_()
            value = loss(objective, nats, t[:, 1], t[:, 2])
            value.backward()
            cases.append({"objective": objective, "answers": answers, "loss": value.item(), "factors": nats.grad.tolist()})
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
