"""The model of run.json: the same tensors, names and arithmetic as mm's train/llm."""

import torch
import torch.nn.functional as F
from torch import nn


class Linear(nn.Module):
    """A matrix without bias, and its low-rank adapter: y = W·x + scale·B·A·x."""

    def __init__(self, inside, outside, rank=0, scale=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outside, inside))
        self.scale = scale
        self.lora_a = self.lora_b = None
        if rank:
            self.lora_a = nn.Parameter(torch.empty(rank, inside))
            self.lora_b = nn.Parameter(torch.empty(outside, rank))

    def forward(self, x):
        y = F.linear(x, self.weight)
        if self.lora_a is not None:
            y = y + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)
        return y


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Embedding(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))

    def forward(self, ids):
        return F.embedding(ids, self.weight)


def rotate(x, cos, sin, pairs):
    """Rotates [B, heads, T, D] by angles [T, D/2]."""
    if pairs:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Block(nn.Module):
    def __init__(self, c, adapted):
        super().__init__()
        self.heads, self.kv_heads, self.size = c["heads"], c["kv_heads"], c["head_dim"]
        self.pairs, self.gated = c["rope"] == "interleaved", c["activation"] == "swiglu"
        dim, wide, kv, hidden, eps = c["dim"], self.heads * self.size, self.kv_heads * self.size, c["hidden"], c["norm_eps"]

        def linear(kind, inside, outside):
            return Linear(inside, outside, *adapted(kind))

        self.attn_norm = Norm(dim, eps)
        self.attn_q, self.attn_k, self.attn_v = linear("attn_q", dim, wide), linear("attn_k", dim, kv), linear("attn_v", dim, kv)
        self.attn_q_norm = self.attn_k_norm = None
        if c["qk_norm"]:
            self.attn_q_norm, self.attn_k_norm = Norm(self.size, eps), Norm(self.size, eps)
        self.attn_output = linear("attn_output", wide, dim)
        self.ffn_norm = Norm(dim, eps)
        self.ffn_gate = linear("ffn_gate", dim, hidden) if self.gated else None
        self.ffn_up, self.ffn_down = linear("ffn_up", dim, hidden), linear("ffn_down", hidden, dim)

    def attention(self, x, cos, sin, mask):
        b, t, _ = x.shape
        q = self.attn_q(x).view(b, t, self.heads, self.size)
        k = self.attn_k(x).view(b, t, self.kv_heads, self.size)
        v = self.attn_v(x).view(b, t, self.kv_heads, self.size).transpose(1, 2)
        if self.attn_q_norm is not None:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        q = rotate(q.transpose(1, 2), cos, sin, self.pairs).to(v.dtype)
        k = rotate(k.transpose(1, 2), cos, sin, self.pairs).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=self.heads != self.kv_heads)
        return self.attn_output(y.transpose(1, 2).reshape(b, t, -1))

    def ffn(self, x):
        if self.gated:
            return self.ffn_down(F.silu(self.ffn_gate(x)) * self.ffn_up(x))
        return self.ffn_down(F.relu(self.ffn_up(x)).square())

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attn_norm(x), cos, sin, mask)
        return x + self.ffn(self.ffn_norm(x))


class GPT(nn.Module):
    """Returns the sum of the losses in nats over the positions with a target."""

    def __init__(self, c, lora=None):
        super().__init__()
        self.c = c

        def adapted(kind):
            if lora and (not lora["targets"] or kind in lora["targets"]):
                return lora["rank"], lora["scale"]
            return 0, 1.0

        self.token_embd = Embedding(c["vocab_size"], c["dim"])
        self.token_embd_norm = Norm(c["dim"], c["norm_eps"]) if c["embed_norm"] else None
        self.blk = nn.ModuleList(Block(c, adapted) for _ in range(c["layers"]))
        self.output_norm = Norm(c["dim"], c["norm_eps"])
        self.output = None if c["tied"] else Linear(c["dim"], c["vocab_size"])

    def angles(self, t, device):
        size = self.c["head_dim"]
        steps = torch.arange(size // 2, dtype=torch.float64)
        angles = torch.outer(torch.arange(t, dtype=torch.float64), self.c["rope_base"] ** (-2 * steps / size))
        return angles.cos().float().to(device), angles.sin().float().to(device)

    def mask(self, starts):
        """Attention to the same document; None if each row is one document."""
        if not starts.any():
            return None
        at = torch.arange(starts.shape[1], device=starts.device)
        return ((at[None, None, :] <= at[None, :, None]) & (at[None, None, :] >= starts[:, :, None]))[:, None]

    def logits(self, ids, starts):
        x = self.token_embd(ids)
        if self.token_embd_norm is not None:
            x = self.token_embd_norm(x)
        cos, sin = self.angles(ids.shape[1], ids.device)
        mask = self.mask(starts)
        for block in self.blk:
            x = block(x, cos, sin, mask)
        x = self.output_norm(x)
        return F.linear(x, self.token_embd.weight) if self.output is None else self.output(x)

    def forward(self, ids, targets, starts):
        logits = self.logits(ids, starts).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum")


def name_in_mm(name):
    """The name in mm's files of a parameter here."""
    return name.replace(".lora_", ".weight.lora_")
