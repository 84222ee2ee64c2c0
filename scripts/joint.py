#!/usr/bin/env python3
"""Compare mm embed of texts and pictures with transformers.

joint.py MM DIR [NAME ...]

DIR receives small random models of CLIP and SigLIP with tokenizers that are trained on
the project's documents. The least cosines of texts and of pictures and the scale and bias
are printed for each model. The exit code is 1 if one misses.

joint.py --fixtures onnx/sentence/testdata/joint

writes two tiny models with their vectors, for the tests. Needs transformers 5.23, torch,
pillow, sentencepiece and protobuf.
"""
import json, os, re, shutil, subprocess, sys
import numpy as np, sentencepiece, torch, transformers as t
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

MM, DIR = sys.argv[1], sys.argv[2]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
torch.manual_seed(1)
torch.set_grad_enabled(False)
CORPUS = [x.strip() for f in ["docs/RATIONALE.md", "README.md", "docs/MODELS.md"] for x in open(os.path.join(ROOT, f), encoding="utf-8") if len(x) > 20]
TEXTS = ["a photo of a cat", "a photo of a dog.", "Two DOGS, running!", "it's the dog's 3rd ball; they'll play", "  spaces   and\ttabs\nlines  ", "Größe und Straße, naïve café",
         "日本語の文章です", "Привет, мир!", "ΟΔΟΣ ΣΟΦΙΑΣ", "مرحبا بالعالم", "한국어", "emoji 👍🏽 and 🐈", "x", "!!!", "!! wow ?? (really) 'quoted' \"text\"", "price: $1,234.50 (50% off)", "e-mail: me@example.org",
         "<|endoftext|> inside", "<|StartOfText|>!! marks", "snake_case and CamelCase", "ﬁne ligatures ①②", "zero\u200bwidth", "i̇stanbul İZMİR", "newline\r\nand\x0cfeed", "a " * 120, "word" * 60, "... ...", "don't can't won't I'M", "1234567890", "Ünïcödé ẞ"]
SIZES = [(64, 48), (48, 64), (300, 90), (33, 35), (32, 32), (7, 211), (640, 480), (1, 1)]


def pictures(folder, sizes):
    out, rng = [], np.random.default_rng(3)
    for i, (w, h) in enumerate(sizes):
        y, x = np.mgrid[0:h, 0:w]
        a = np.stack([128 + 100 * np.sin(x / (3 + i) + c) * np.cos(y / (5 + c)) for c in range(3)], -1) + rng.normal(0, 12, (h, w, 3))
        path = os.path.join(folder, f"{w}x{h}.png")
        Image.fromarray(a.clip(0, 255).astype(np.uint8)).save(path)
        out.append(path)
    return out


def clip_tokenizer(folder, size=900, limit=24):
    tok = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tok.pre_tokenizer = t.CLIPTokenizer()._tokenizer.pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, end_of_word_suffix="</w>", special_tokens=[]))
    merges = [tuple(m) for m in json.loads(tok.to_str())["model"]["merges"]]
    vocab = {c: i for i, c in enumerate(sorted(alphabet))}
    for text in [c + "</w>" for c in sorted(alphabet)] + ["".join(m) for m in merges] + ["<|startoftext|>", "<|endoftext|>"]:
        vocab.setdefault(text, len(vocab))
    t.CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=limit).save_pretrained(folder)


def siglip_tokenizer(folder, size=700, **more):
    text = os.path.join(folder, "corpus.txt")
    open(text, "w", encoding="utf-8").write("\n".join(re.sub(r"[^\w\s]", "", x).lower() for x in CORPUS))
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=os.path.join(folder, "spiece"), vocab_size=size, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2, **more)
    t.SiglipTokenizer(os.path.join(folder, "spiece.model"), model_max_length=16).save_pretrained(folder)
    for name in ["corpus.txt", "spiece.vocab"]:
        os.remove(os.path.join(folder, name))


def siglip2_tokenizer(folder, kind=t.Siglip2Tokenizer):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "▁")])
    names = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=900, special_tokens=names))
    data = json.loads(tok.to_str())["model"]
    kind(vocab=data["vocab"], merges=[tuple(m) for m in data["merges"]], add_bos_token=False, add_eos_token=True, model_max_length=16, padding_side="right").save_pretrained(folder)


VISION = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
TEXT = dict(hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5)
WIDE = dict(TEXT, hidden_size=48, num_attention_heads=3, max_position_embeddings=16)
CASES = {
    "clip": ("clip", clip_tokenizer, dict(TEXT, max_position_embeddings=24), VISION, dict(projection_dim=36)),
    "clip-legacy-end": ("clip", clip_tokenizer, dict(TEXT, max_position_embeddings=24, eos_token_id=2), dict(VISION, patch_size=7, image_size=30), dict(projection_dim=20)),
    "clip-gelu": ("clip", clip_tokenizer, dict(TEXT, max_position_embeddings=30, hidden_act="gelu"), dict(VISION, hidden_act="gelu", layer_norm_eps=1e-3), dict(projection_dim=52)),
    "siglip": ("siglip", siglip_tokenizer, dict(TEXT, max_position_embeddings=16, projection_size=48), VISION, {}),
    "siglip-odd": ("siglip", siglip_tokenizer, WIDE, dict(VISION, patch_size=9, image_size=31), {}),
    "siglip2-fixed": ("siglip", siglip2_tokenizer, WIDE, VISION, {}),
    "siglip2-gemma": ("siglip", lambda folder: siglip2_tokenizer(folder, t.GemmaTokenizer), WIDE, VISION, {}),
}


def made(folder, kind, tokenizer, text, vision, more):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tokenizer(folder)
    tok = t.AutoTokenizer.from_pretrained(folder)
    text = dict(dict(eos_token_id=tok.eos_token_id), **text, vocab_size=len(tok), pad_token_id=tok.pad_token_id, bos_token_id=tok.bos_token_id)
    config, cls = (t.CLIPConfig, t.CLIPModel) if kind == "clip" else (t.SiglipConfig, t.SiglipModel)
    model = cls(config(text_config=text, vision_config=vision, **more)).eval()
    for name, p in model.named_parameters():
        torch.nn.init.normal_(p, std=0.3 if p.ndim else 1)
        if "norm" in name and name.endswith("weight"):
            p.add_(1)
    model.save_pretrained(folder)
    size = vision["image_size"]
    pil = CLIPImageProcessorPil(size={"shortest_edge": size}, crop_size={"height": size, "width": size}) if kind == "clip" else SiglipImageProcessorPil(size={"height": size, "width": size})
    pil.save_pretrained(folder)
    return model, t.AutoTokenizer.from_pretrained(folder), pil


def unit(x):
    x = getattr(x, "pooler_output", x)[0].double().numpy()
    return x / np.linalg.norm(x)


def text_vector(kind, model, tok, x):
    fixed = kind == "siglip"
    b = tok([x.strip()], truncation=True, max_length=tok.model_max_length, padding="max_length" if fixed else False, return_tensors="pt")
    keep = ["input_ids"] if fixed else ["input_ids", "attention_mask"]
    return unit(model.get_text_features(**{k: b[k] for k in keep}))


def image_vector(model, pil, file):
    return unit(model.get_image_features(pixel_values=pil(Image.open(file).convert("RGB"), return_tensors="pt")["pixel_values"]))


def fixtures():
    files = pictures(DIR, SIZES[3:5])
    for name in ["clip", "siglip"]:
        folder, kind = os.path.join(DIR, name), CASES[name][0]
        model, tok, pil = made(folder, *CASES[name])
        want = dict(texts=TEXTS, ids=[], vectors=[], images=[[round(float(y), 7) for y in image_vector(model, pil, f)] for f in files])
        for x in TEXTS:
            want["ids"].append(tok([x.strip()], truncation=True, max_length=tok.model_max_length)["input_ids"][0])
            want["vectors"].append([round(float(y), 7) for y in text_vector(kind, model, tok, x)])
        json.dump(want, open(os.path.join(folder, "want.json"), "w"))


def mm(*args):
    p = subprocess.run([MM, *args], capture_output=True, env=os.environ | {"MM_HOME": os.path.join(DIR, "home")})
    if p.returncode:
        sys.exit(f"mm {args}: {p.stderr.decode()}")
    return p.stdout


def compare():
    bad, files = 0, pictures(DIR, SIZES)
    for name in sys.argv[3:] or CASES:
        folder, kind = os.path.join(DIR, name), CASES[name][0]
        model, tok, pil = made(folder, *CASES[name])
        want = np.array([text_vector(kind, model, tok, x) for x in TEXTS] + [image_vector(model, pil, f) for f in files])
        out = json.loads(mm("embed", "--json", *[a for f in files for a in ["--image", f]], folder, *TEXTS))
        each = (np.array(out["vectors"]) * want).sum(1)
        for x, cosine in zip(TEXTS + files, each):
            if cosine < 0.99999:
                print(f"{x!r:.60}: {cosine:.6f}")
        texts, images = each[: len(TEXTS)].min(), each[len(TEXTS) :].min()
        scale = abs(out["logit_scale"] / float(model.logit_scale.exp()) - 1)
        bias = abs(out.get("logit_bias", 0) - float(getattr(model, "logit_bias", torch.zeros(1))))
        bad += not (texts >= 0.99999 and images >= 0.99999 and scale < 1e-6 and bias < 1e-6)
        other = (want @ want[0])[1:].min()
        print(f"| {name} | {len(TEXTS)} texts, {1 - texts:.0e} | {len(files)} pictures, {1 - images:.0e} | scale {out['logit_scale']:.4f}, bias {out.get('logit_bias', 0):.4f} | others {other:.2f} |", flush=True)
    return bad > 0


if MM == "--fixtures":
    fixtures()
else:
    sys.exit(compare())
