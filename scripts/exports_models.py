"""Writes models of random weights, and the reference modules, for make exports: FOLDER/NAME.onnx, FOLDER/NAME/INPUT.npy."""
import glob
import os
import shutil
import sys

import numpy as np
import onnx
import torch
from torch import nn


class Separable(nn.Module):
    """An inverted residual of MobileNet."""

    def __init__(self, c, out, stride):
        super().__init__()
        wide = 4 * c
        self.f = nn.Sequential(nn.Conv2d(c, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(), nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
                               nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.same = c == out and stride == 1

    def forward(self, x):
        return x + self.f(x) if self.same else self.f(x)


def mobilenet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), Separable(16, 16, 1), Separable(16, 24, 2), Separable(24, 24, 1), Separable(24, 40, 2),
                         Separable(40, 40, 1), Separable(40, 96, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 100))


class Bottleneck(nn.Module):
    def __init__(self, c, out, stride):
        super().__init__()
        m = out // 4
        self.f = nn.Sequential(nn.Conv2d(c, m, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU(), nn.Conv2d(m, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU(), nn.Conv2d(m, out, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if c != out or stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.f(x) + self.short(x))


def resnet():
    layers, c = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for out, n, stride in ((256, 3, 1), (512, 4, 2), (1024, 6, 2), (2048, 3, 2)):
        for i in range(n):
            layers.append(Bottleneck(c, out, stride if i == 0 else 1))
            c = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.a, self.b, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.out, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask=None):
        n, t, d = x.shape
        q, k, v = self.qkv(self.a(x)).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        s = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        if mask is not None:
            s = s + mask
        x = x + self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.b(x))))


class ViT(nn.Module):
    def __init__(self, d=192, layers=12, heads=3, size=224, patch=16):
        super().__init__()
        self.patch, self.place = nn.Conv2d(3, d, patch, patch), nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, d) * 0.02)
        self.cls, self.blocks, self.norm, self.head = nn.Parameter(torch.zeros(1, 1, d)), nn.ModuleList(Block(d, heads) for _ in range(layers)), nn.LayerNorm(d), nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.place
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


class MiniLM(nn.Module):
    def __init__(self, d=384, layers=6, heads=12, vocabulary=30522):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(vocabulary, d), nn.Embedding(512, d), nn.LayerNorm(d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))

    def forward(self, input_ids, attention_mask):
        x = self.norm(self.words(input_ids) + self.places(torch.arange(input_ids.shape[1])))
        mask = (1 - attention_mask[:, None, None, :].float()) * -10000.0
        for b in self.blocks:
            x = b(x, mask)
        weight = attention_mask[:, :, None].float()
        return (x * weight).sum(1) / weight.sum(1)


class Small(nn.Module):
    """What the others lack: upsampling, pools with pads, groups, transposed convolutions, one dimension."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=2), nn.ConvTranspose2d(8, 6, 4, 2, 1)
        self.line, self.back = nn.Conv1d(6, 6, 5, 1, 2), nn.ConvTranspose1d(6, 4, 3, 2, 1, output_padding=1)

    def forward(self, x):
        x = nn.functional.leaky_relu(self.a(x), 0.1)
        x = torch.cat([nn.functional.max_pool2d(x, 3, 1, 1), nn.functional.avg_pool2d(x, 3, 1, 1)], 1)[:, ::2] + self.b(x)
        x = nn.functional.interpolate(nn.functional.elu(self.up(x)), scale_factor=2, mode="bilinear", align_corners=False)
        x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")[:, :, 1:-1, :].clamp(-2, 2)
        y = nn.functional.softplus(self.line(x.mean(3)))
        return self.back(y), torch.nn.functional.pad(x, (1, 2, 0, 1)).abs().sqrt()


def images(size):
    return {"x": torch.rand(1, 3, size, size) * 2 - 1}


def tokens():
    mask = torch.ones(1, 32, dtype=torch.int64)
    mask[0, 24:] = 0
    return {"input_ids": torch.randint(0, 30000, (1, 32)), "attention_mask": mask}


MODELS = {"mobilenet": (mobilenet, lambda: images(128)), "resnet50": (resnet, lambda: images(224)), "vit": (ViT, lambda: images(224)), "minilm": (MiniLM, tokens), "small": (Small, lambda: images(32))}

MODULES = {"vision-enc": "vision_enc", "vision-proj": "vision_proj", "audio-enc": "audio_enc", "audio-proj": "audio_proj", "img-dec": "img_dec", "tts-dec": "tts_dec"}


def settle(model, feeds):
    """Sets the statistics of normalizations to those of the input, as training would."""
    model.train()
    with torch.no_grad():
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = 1.0
        if any(isinstance(m, nn.BatchNorm2d) for m in model.modules()):
            model(*[torch.cat([v, torch.rand_like(v)]) for v in feeds.values()])
    return model.eval()


def save(folder, name, arrays):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    for k, v in arrays.items():
        np.save(os.path.join(folder, name, k + ".npy"), v)


def main():
    folder, root = sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    os.makedirs(folder, exist_ok=True)
    for name, file in MODULES.items():
        path = os.path.join(root, "catalog", name, file + ".onnx")
        shutil.copy(path, os.path.join(folder, name + ".onnx"))
        save(folder, name, {v.name: np.load(os.path.join(root, "catalog", name, "golden", v.name + ".npy")) for v in onnx.load(path).graph.input})
    for name, (make, inputs) in MODELS.items():
        torch.manual_seed(7)
        feeds = inputs()
        model = settle(make(), feeds)
        torch.onnx.export(model, tuple(feeds.values()), os.path.join(folder, name + ".onnx"), input_names=list(feeds), dynamo=True, external_data=False, verbose=False)
        save(folder, name, {k: v.numpy() for k, v in feeds.items()})
    for leftover in glob.glob(os.path.join(folder, "*.data")):
        os.remove(leftover)


if __name__ == "__main__":
    main()
