"""Exports models to the formats of other runtimes and compares them with ONNX Runtime.

exports.py [FOLDER [MODEL.gguf…]], in the formats FORMATS (all): the functions of catalog/ with their golden inputs, models of
scripts/fetch-models.sh (MM_MODELS_DIR), and random weights in the shapes of MobileNet, ResNet, ViT, SigLIP, Whisper's encoder and MiniLM, written by torch where it is installed. The tests
of mm export each in every precision; exports_mobile.py runs the files with their vendors' software,
and exports_language.py the core of catalog/ and the models named.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def save(folder, name, feeds):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    for key, value in feeds.items():
        np.save(os.path.join(folder, name, key + ".npy"), value)


def catalog(folder):
    import onnx
    for path in sorted(glob.glob(os.path.join(ROOT, "catalog", "*", "*.onnx"))):
        name = os.path.basename(os.path.dirname(path))
        model = onnx.load(path)
        golden = os.path.join(os.path.dirname(path), "golden")
        if not all(os.path.exists(os.path.join(golden, i.name + ".npy")) for i in model.graph.input):
            continue
        shutil.copy(path, os.path.join(folder, name + ".onnx"))
        save(folder, name, {i.name: np.load(os.path.join(golden, i.name + ".npy")) for i in model.graph.input})


PACKAGED = {
    "ocr-cls": ("ocr/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "ocr-det": ("ocr/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 96, 160)}),
    "ocr-rec": ("ocr/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 160)}),
    "silero-vad": ("vad/silero_vad_v5.onnx", {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
    "wake-mel": ("oww/melspectrogram.onnx", {"input": (1, 16000)}),
    "wake-embedding": ("oww/embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
}


def packaged(folder, models):
    """Models of scripts/fetch-models.sh."""
    import onnx
    numbers = np.random.default_rng(7)
    for name, (file, shapes) in PACKAGED.items():
        path = os.path.join(models, file)
        if not os.path.exists(path):
            print(f"skipped: {name}: {path} is missing")
            continue
        shutil.copy(path, os.path.join(folder, name + ".onnx"))
        feeds = {k: numbers.standard_normal(v).astype(np.float32) if isinstance(v, tuple) else np.array(v) for k, v in shapes.items()}
        assert set(feeds) == {i.name for i in onnx.load(path).graph.input}, name
        save(folder, name, feeds)


def convolutions():
    from torch import nn

    def block(a, b, kernel, stride=1, groups=1, act=nn.Hardswish):
        return nn.Sequential(nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b), act())

    class Gate(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.f = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n // 4, 1), nn.ReLU(), nn.Conv2d(n // 4, n, 1), nn.Hardsigmoid())

        def forward(self, x):
            return x * self.f(x)

    class Inverted(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.f = nn.Sequential(block(a, 4 * a, 1), block(4 * a, 4 * a, 3, stride, 4 * a), Gate(4 * a), block(4 * a, b, 1, act=nn.Identity))
            self.same = a == b and stride == 1

        def forward(self, x):
            return x + self.f(x) if self.same else self.f(x)

    class Bottleneck(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.f = nn.Sequential(block(a, b // 4, 1, act=nn.ReLU), block(b // 4, b // 4, 3, stride, act=nn.ReLU), block(b // 4, b, 1, act=nn.Identity))
            self.skip = nn.Identity() if a == b else block(a, b, 1, stride, act=nn.Identity)
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(self.f(x) + self.skip(x))

    def head(n):
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 100))

    mobile = nn.Sequential(block(3, 16, 3, 2), Inverted(16, 16, 1), Inverted(16, 24, 2), Inverted(24, 24, 1), Inverted(24, 40, 2), Inverted(40, 40, 1), block(40, 160, 1), head(160))
    res = nn.Sequential(block(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1), Bottleneck(64, 256, 1), Bottleneck(256, 256, 1), Bottleneck(256, 512, 2), Bottleneck(512, 1024, 2), head(1024))
    for model in (mobile, res):
        for m in model.modules():  # other statistics than 0 and 1
            if isinstance(m, nn.BatchNorm2d):
                nn.init.normal_(m.running_mean, std=0.1)
                nn.init.uniform_(m.running_var, 0.5, 1.5)
    return {"mobilenet-like": mobile, "resnet-like": res}


def transformers_models():
    import torch
    import transformers as t

    class Only(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, *x):
            return self.model(*x).last_hidden_state

    eager = {"attn_implementation": "eager"}
    vit = t.ViTModel(t.ViTConfig(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768, image_size=128, **eager), add_pooling_layer=False)
    siglip = t.SiglipVisionModel(t.SiglipVisionConfig(hidden_size=192, num_hidden_layers=6, num_attention_heads=3, intermediate_size=768, image_size=128, **eager))
    whisper = t.models.whisper.modeling_whisper.WhisperEncoder(t.WhisperConfig(d_model=192, encoder_layers=4, encoder_attention_heads=3, encoder_ffn_dim=768, max_source_positions=100, **eager))
    bert = t.BertModel(t.BertConfig(vocab_size=2000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, **eager), add_pooling_layer=False)
    image = torch.randn(1, 3, 128, 128)
    return {
        "vit": (Only(vit), {"image": image}), "siglip": (Only(siglip), {"image": image}),
        "whisper-encoder": (Only(whisper), {"mel": torch.randn(1, 80, 200)}),
        "minilm": (Only(bert), {"ids": torch.randint(0, 2000, (1, 32)), "mask": torch.ones(1, 32, dtype=torch.int64)}),
    }


def random(folder):
    import torch
    torch.manual_seed(1)
    image = torch.randn(1, 3, 128, 128)
    models = {name: (m, {"image": image}) for name, m in convolutions().items()}
    models.update(transformers_models())
    for name, (model, feeds) in models.items():
        torch.onnx.export(model.eval(), tuple(feeds.values()), os.path.join(folder, name + ".onnx"), input_names=list(feeds), output_names=["y"], opset_version=17, dynamo=False)
        save(folder, name, {k: v.numpy() for k, v in feeds.items()})


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else tempfile.mkdtemp(prefix="mm-exports-")
    os.makedirs(os.path.join(folder, "out"), exist_ok=True)
    catalog(folder)
    packaged(folder, os.environ.get("MM_MODELS_DIR", os.path.join(ROOT, ".models")))
    try:
        random(folder)
    except ImportError as e:
        print(f"skipped: models of random weights: {e}")
    shutil.copy(os.path.join(ROOT, "catalog", "core-llm", "core-llm.gguf"), folder)
    for path in sys.argv[2:]:
        shutil.copy(path, folder)
    env = {**os.environ, "MM_EXPORTS": os.path.abspath(folder), "MM_LANGUAGE": os.path.abspath(folder)}
    packages = ["./assemble/export/" + f for f in os.environ.get("FORMATS", "...").split()]
    subprocess.run(["go", "test", "-count=1", "-timeout", "60m", "-run", "^(TestJudge|TestLanguage)$", *packages], cwd=ROOT, env=env, check=True)
    judges = [subprocess.run([sys.executable, os.path.join(ROOT, "scripts", name), folder]).returncode for name in ("exports_mobile.py", "exports_language.py")]
    sys.exit(max(judges))


if __name__ == "__main__":
    main()
