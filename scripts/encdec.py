"""Write tiny random encoder-decoders with the ids of transformers.

encdec.py OUT [large]: writes folders of T5, mT5, UMT5 and Moonshine, and without
"large" one of Whisper, each with cases.json: {text or sound, limit, ids, words}.
TestEncDec of cmd/mm reads them: the small ones of testdata, and OUT as MM_ENCDEC.
"""

import json
import os
import sys
import wave

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer, GenerationConfig, MoonshineConfig, MoonshineForConditionalGeneration, MT5Config, MT5ForConditionalGeneration, T5Config,
    T5ForConditionalGeneration, UMT5Config, UMT5ForConditionalGeneration, Wav2Vec2FeatureExtractor, WhisperConfig, WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
OUT, LARGE = sys.argv[1], len(sys.argv) > 2
LIMIT = 32
CORPUS = [
    "Translate English to German: the house is wonderful and big.", "Das Haus ist wunderbar und groß.",
    "Summarize: a quick brown fox jumps over the lazy dog, 1234 times.", "Ein schneller brauner Fuchs springt über den faulen Hund; naïve café.",
] * 8
TEXTS = ["translate English to German: the house is wonderful.", "a", "Summarize: " + " ".join(CORPUS[:8]), "café ① naïve 12  34"]
SECONDS = [0.06, 1, 5, 9.3, 25] if LARGE else [0.06, 1]


def settings(folder, **values):
    with open(folder + "/tokenizer_config.json", "w") as f:
        json.dump(values, f)


def unigram(folder):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    trainer = trainers.UnigramTrainer(vocab_size=150, show_progress=False, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    t.train_from_iterator(CORPUS, trainer)
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)])
    t.save(folder + "/tokenizer.json")
    settings(folder, tokenizer_class="T5Tokenizer", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", extra_ids=100, model_max_length=512)
    return t.get_vocab_size()


def bpe(folder):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    with open(folder + "/tokenizer.json", "w") as f:
        json.dump(d, f)
    settings(folder, tokenizer_class="PreTrainedTokenizerFast", eos_token="</s>", unk_token="<unk>", bos_token="<s>")
    return t.get_vocab_size()


def sound(path, seconds):
    t = np.arange(int(seconds * 16000)) / 16000
    x = 0.3 * np.sin(2 * np.pi * (200 + 40 * np.sin(t * 1.7)) * t) * (np.sin(t * 3) > 0)
    x += 0.02 * np.random.default_rng(int(seconds * 10)).standard_normal(len(t))
    x = (x.clip(-1, 1) * 32767).astype("<i2")
    with wave.open(path, "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(16000)
        w.writeframes(x.tobytes())
    return torch.tensor(x.astype(np.float32) / 32768)


def random(make, config, seed):
    torch.manual_seed(seed)
    m = make(config).eval()
    for name, p in m.named_parameters():
        if "relative" in name:
            p.data.normal_(0, 2)
        elif "norm" in name and name.endswith("weight"):
            p.data.uniform_(0.5, 1.5)
        elif name.endswith("bias"):
            p.data.normal_(0, 0.2)
    return m


def saved(model, folder):
    """Save a model in half precision and read it in single."""
    model.half().save_pretrained(folder)
    return type(model).from_pretrained(folder, dtype=torch.float32).eval()


def greedy(model, limit, stop, **inputs):
    with torch.no_grad():
        ids = model.generate(**inputs, max_new_tokens=limit, do_sample=False, num_beams=1)[0].tolist()
    ids = ids[ids.index(model.generation_config.decoder_start_token_id) + 1 :]
    return ids[: ids.index(stop)] if stop in ids else ids


def write(folder, cases):
    with open(folder + "/cases.json", "w") as f:
        json.dump(cases, f, ensure_ascii=False)


def folder_of(name):
    os.makedirs(os.path.join(OUT, name), exist_ok=True)
    return os.path.join(OUT, name)


def t5(name, config, make, seed=1, head=False, **options):
    folder = folder_of(name)
    size = unigram(folder) + 110
    sizes = {"d_kv": 8, "d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 4, "vocab_size": size, "initializer_factor": 3.0, "decoder_start_token_id": 0}
    model = saved(random(make, config(**sizes | options), seed), folder)
    if head:  # published folders of version 1.1
        weights = load_file(folder + "/model.safetensors")
        weights["lm_head.weight"] = torch.randn(size, 16).half()
        save_file(weights, folder + "/model.safetensors", metadata={"format": "pt"})
        with open(folder + "/config.json") as f:
            stated = json.load(f) | {"tie_word_embeddings": False}
        with open(folder + "/config.json", "w") as f:
            json.dump(stated, f)
        model = make.from_pretrained(folder, dtype=torch.float32).eval()
    words = AutoTokenizer.from_pretrained(folder)
    cases = []
    for text in TEXTS:
        ids = greedy(model, LIMIT, 1, input_ids=words(text, return_tensors="pt").input_ids)
        cases.append({"text": text, "limit": LIMIT, "ids": ids, "words": words.decode(ids, skip_special_tokens=True).strip()})
    write(folder, cases)


def moonshine(name, seed, **options):
    folder = folder_of(name)
    sizes = {"hidden_size": 20, "intermediate_size": 24, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2, "initializer_range": 0.3, "vocab_size": bpe(folder)}
    model = random(MoonshineForConditionalGeneration, MoonshineConfig(**sizes | options), seed)
    model.generation_config = GenerationConfig(decoder_start_token_id=1, eos_token_id=2, bos_token_id=1, max_length=194)
    model = saved(model, folder)
    Wav2Vec2FeatureExtractor(do_normalize=False).save_pretrained(folder)
    cases = []
    for s in SECONDS:
        samples, limit = sound(f"{folder}/{s}.wav", s), min(int(np.ceil(6.5 * s)), LIMIT)
        cases.append({"sound": f"{s}.wav", "limit": LIMIT, "ids": greedy(model, limit, 2, input_values=samples[None])})
    write(folder, cases)


def whisper(name, seed):
    """Windows of 2 seconds and no more; scripts/transcripts.py compares longer ones."""
    folder, special = folder_of(name), ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]
    words = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    words.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    words.add_tokens([AddedToken("<|%.2f|>" % (i * 0.02), special=False, normalized=False) for i in range(101)])
    words.save(folder + "/tokenizer.json")
    settings(folder, tokenizer_class="WhisperTokenizer", eos_token=special[0], bos_token=special[0], unk_token=special[0])
    at = {s: words.token_to_id(s) for s in special}
    config = WhisperConfig(
        vocab_size=words.get_vocab_size(), num_mel_bins=80, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24, d_model=16, pad_token_id=at[special[0]], bos_token_id=at[special[0]], eos_token_id=at[special[0]],
        decoder_start_token_id=at[special[1]], init_std=0.3, max_source_positions=100, max_target_positions=64,
    )
    model = random(WhisperForConditionalGeneration, config, seed)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=at[special[1]], eos_token_id=at[special[0]], pad_token_id=at[special[0]], bos_token_id=at[special[0]], max_length=64,
        suppress_tokens=[1, 2, 7], begin_suppress_tokens=[220, at[special[0]]], lang_to_id={s: at[s] for s in special[2:4]},
        task_to_id={"translate": at["<|translate|>"], "transcribe": at["<|transcribe|>"]}, no_timestamps_token_id=at["<|notimestamps|>"], is_multilingual=True,
    )
    model = saved(model, folder)
    mel = WhisperFeatureExtractor(feature_size=80, chunk_length=2)
    mel.save_pretrained(folder)
    samples = sound(folder + "/1.wav", 0.95)
    x = mel(samples.numpy(), return_tensors="pt", sampling_rate=16000).input_features
    with torch.no_grad():
        found = model.generate(input_features=x, return_segments=True, return_timestamps=True, max_new_tokens=LIMIT, language="de", task="transcribe")
    write(folder, [{"sound": "1.wav", "limit": LIMIT, "language": "de", "ids": [i for s in found["segments"][0] for i in s["tokens"].tolist()]}])



for seed in range(1, 4 if LARGE else 2):
    mark = f"-{seed}" if LARGE else ""
    t5("t5" + mark, T5Config, T5ForConditionalGeneration, seed, feed_forward_proj="relu")
    t5("t5-gated" + mark, T5Config, T5ForConditionalGeneration, seed, head=True, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_layers=2, num_decoder_layers=1)
    moonshine("moonshine" + mark, seed)
    if LARGE:
        t5("t5-far" + mark, T5Config, T5ForConditionalGeneration, seed, relative_attention_num_buckets=8, relative_attention_max_distance=20)
        t5("mt5" + mark, MT5Config, MT5ForConditionalGeneration, seed)
        moonshine("moonshine-bias" + mark, seed, attention_bias=True, partial_rotary_factor=0.5)
        moonshine("moonshine-heads" + mark, seed, hidden_size=72, encoder_num_attention_heads=2, decoder_num_attention_heads=4, encoder_num_hidden_layers=3)
    else:
        whisper("whisper", seed)
    t5("umt5" + mark, UMT5Config, UMT5ForConditionalGeneration, seed)
