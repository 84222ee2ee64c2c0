#!/usr/bin/env python3
"""Write encoders.json.gz: tokenizers of encoders with cases of transformers 5.23.

encoders.py FOLDERS   (FOLDERS is what scripts/tokens.py wrote)

Tables of normalizers are replaced by a small one, and the ids computed anew.
"""
import base64, gzip, io, json, os, random, sys, tempfile
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from transformers import AutoTokenizer

RULES = {"ﬁ": "fi", "ﬃ": "ffi", "①": "1", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "e\u0301": "é", "\u200b": "", "Å": "A\u030a", "ǆ": "dž", "ｆ": "f", "ｕ": "u", "ｌ": "l"}


def small():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for a, b in RULES.items():
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        f.flush()
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a few words of text"] * 50), model_writer=out, vocab_size=30, hard_vocab_limit=False, normalization_rule_tsv=f.name, minloglevel=2)
    m = pb.ModelProto()
    m.ParseFromString(out.getvalue())
    return m.normalizer_spec.precompiled_charsmap


TABLE = base64.b64encode(small()).decode()


def replace(x):
    if isinstance(x, dict):
        return {k: TABLE if k == "precompiled_charsmap" else replace(v) for k, v in x.items()}
    return [replace(v) for v in x] if isinstance(x, list) else x


out = {}
for name in ["wordpiece-bert-None-None", "wordpiece-bert-False-None", "wordpiece-mpnet", "unigram-xlmr-class", "unigram-xlmr-new", "unigram-albert", "unigram-t5", "unigram-bytes"]:
    folder = os.path.join(sys.argv[1], name)
    read = lambda file: json.load(open(os.path.join(folder, file), encoding="utf-8"))
    file, config, model = replace(read("tokenizer.json")), read("tokenizer_config.json"), read("config.json")
    cases = [c for c in json.load(open(folder + ".json"))["cases"] if len(c["text"]) + len(c.get("second", "")) < 150]
    random.seed(1)
    cases = random.sample([c for c in cases if "second" not in c], 40) + random.sample([c for c in cases if "second" in c], 12)
    with tempfile.TemporaryDirectory() as d:
        for n, v in {"tokenizer.json": file, "tokenizer_config.json": config, "config.json": model}.items():
            json.dump(v, open(os.path.join(d, n), "w"))
        tok = AutoTokenizer.from_pretrained(d)
        for c in cases:
            if "second" in c:
                e = tok(c["text"], c["second"], truncation="longest_first" if c["limit"] else False, max_length=c["limit"] or None, return_token_type_ids=True)
                c["ids"], c["types"] = e["input_ids"], e["token_type_ids"]
            else:
                c["ids"] = tok.encode(c["text"], add_special_tokens=c["add"])
    out[name] = {"tokenizer": file, "config": config, "model_type": model["model_type"], "cases": cases}
with gzip.GzipFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "encoders.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode())
