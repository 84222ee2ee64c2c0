"""Write flags.json: small tokenizers with token ids of Hugging Face tokenizers 0.23.3.

    python flags.py > flags.json
"""
import json, sys, unicodedata
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

TEXTS = ["a <s> b", "a  <l>  b", "a  <r>  b", "x<w>x <w> x", "e\u0301 \u00e9 <É> <E\u0301>", unicodedata.normalize("NFD", "Hà Nội"), "한국", unicodedata.normalize("NFD", "한국"), "a字b aᛟb", "字字", " \n<l>\n <r>\n ", "A<S>a", "<l><r><l> <w>."]


def tokens(flip):
    return [
        AddedToken("<s>", special=True), AddedToken("<l>", special=True, lstrip=True), AddedToken("<r>", special=True, rstrip=True),
        AddedToken("<w>", special=flip, single_word=True, normalized=flip), AddedToken("<É>", special=False, normalized=True),
    ]


def characters(unk, **kw):
    vocab = {x: i for i, x in enumerate((["<unk>"] if unk else []) + list("▁abxeh<>.é\nnoi") + ["ab", "▁a", "▁▁"])}
    return Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b"), ("▁", "a"), ("▁", "▁")], unk_token="<unk>" if unk else None, **kw))


def bytes_():
    vocab = {x: i for i, x in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab["Ã©"] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=[("Ã", "©")]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return t


N, P = normalizers, pre_tokenizers
made = {}
for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"]:
    made["bytes " + name] = t = bytes_()
    t.normalizer = getattr(N, name)()
made["bytes"] = bytes_()
made["bytes prefix"] = t = bytes_()
t.pre_tokenizer = P.ByteLevel(add_prefix_space=True)
for unk in [True, False]:
    for fuse in [True, False]:
        for scheme in ["always", "first", "never"]:
            made[f"characters {unk} {fuse} {scheme}"] = t = characters(unk, fuse_unk=fuse)
            t.pre_tokenizer = P.Metaspace(prepend_scheme=scheme, split=fuse)
        made[f"characters {unk} {fuse} prepend"] = t = characters(unk, fuse_unk=fuse)
        t.normalizer = N.Sequence([N.NFC(), N.Prepend("▁"), N.Replace(" ", "▁")])
rows = []
for i, (name, t) in enumerate(made.items()):
    t.add_tokens(tokens(i % 2 == 0))
    rows.append({"name": name, "tokenizer": json.loads(t.to_str()), "ids": [t.encode(x).ids for x in TEXTS]})
print(json.dumps({"texts": TEXTS, "rows": rows}, ensure_ascii=True, separators=(",", ":")))
