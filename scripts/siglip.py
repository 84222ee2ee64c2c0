"""Writes the losses and gradients of the sigmoid loss by PyTorch, for the test of
train/nn: python scripts/siglip.py > train/nn/testdata/siglip.json (torch 2)."""

import json
import math

import torch
import torch.nn.functional as F


def case(n, C, scale, bias, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, C, generator=g, dtype=torch.float32).requires_grad_()
    y = torch.randn(n, C, generator=g, dtype=torch.float32).requires_grad_()
    t = torch.tensor(scale, dtype=torch.float64, requires_grad=True)
    b = torch.tensor(bias, dtype=torch.float64, requires_grad=True)
    logits = F.normalize(x.double(), dim=-1) @ F.normalize(y.double(), dim=-1).T * t.exp() + b
    loss = -F.logsigmoid((2 * torch.eye(n) - 1) * logits).sum() / n
    loss.backward()
    flat = lambda v: v.detach().flatten().tolist()
    return dict(n=n, scale=scale, bias=bias, x=flat(x), y=flat(y), loss=loss.item(),
                dx=flat(x.grad), dy=flat(y.grad), dscale=t.grad.item(), dbias=b.grad.item())


print(json.dumps([case(4, 6, math.log(10), -10, 1), case(3, 5, math.log(2), 0.5, 2), case(1, 2, 0, 0, 3)]))
