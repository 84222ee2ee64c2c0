"""Compare mm with transformers on tiny random Whisper models.

transcripts.py MM DIR: writes models of several seeds and sounds of 1, 30 and 70 s to DIR,
runs both, and compares ids and time stamps of every segment.
"""

import json
import os
import subprocess
import sys
import wave

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

SPECIAL = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
    "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
]
LIMIT = 48


def write_model(out, seed):
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(seed)
    words = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    words.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIAL])
    words.add_tokens([AddedToken("<|%.2f|>" % (i * 0.02), special=False, normalized=False) for i in range(1501)])
    words.save(out + "/tokenizer.json")
    with open(out + "/tokenizer_config.json", "w") as f:
        json.dump({"tokenizer_class": "WhisperTokenizer", "eos_token": SPECIAL[0], "bos_token": SPECIAL[0], "unk_token": SPECIAL[0]}, f)
    at = {s: words.token_to_id(s) for s in SPECIAL}
    config = WhisperConfig(
        vocab_size=words.get_vocab_size(), num_mel_bins=80 if seed % 2 else 128, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, d_model=48,
        pad_token_id=at[SPECIAL[0]], bos_token_id=at[SPECIAL[0]], eos_token_id=at[SPECIAL[0]],
        decoder_start_token_id=at[SPECIAL[1]], init_std=0.3,
    )
    model = WhisperForConditionalGeneration(config).eval()
    model.generation_config = GenerationConfig(
        decoder_start_token_id=at[SPECIAL[1]], eos_token_id=at[SPECIAL[0]], pad_token_id=at[SPECIAL[0]], bos_token_id=at[SPECIAL[0]],
        max_length=448, suppress_tokens=[1, 2, 7] + [at[s] for s in SPECIAL[5:10]] + [at[SPECIAL[1]]],
        begin_suppress_tokens=[220, at[SPECIAL[0]]], lang_to_id={s: at[s] for s in SPECIAL[2:5]},
        task_to_id={"translate": at["<|translate|>"], "transcribe": at["<|transcribe|>"]},
        no_timestamps_token_id=at["<|notimestamps|>"], max_initial_timestamp_index=50, is_multilingual=True, return_timestamps=False,
    )
    model.save_pretrained(out)
    WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(out)


def write_sound(path, seconds):
    t = np.arange(seconds * 16000) / 16000
    x = 0.3 * np.sin(2 * np.pi * (200 + 40 * np.sin(t * 1.7)) * t) * (np.sin(t * 3) > 0)
    x += 0.02 * np.random.default_rng(seconds).standard_normal(len(t))
    x = (x.clip(-1, 1) * 32767).astype("<i2")
    with wave.open(path, "wb") as w:
        w.setnchannels(1), w.setsampwidth(2), w.setframerate(16000)
        w.writeframes(x.tobytes())
    return x.astype(np.float32) / 32768


def reference(folder, samples, **options):
    model, mel = WhisperForConditionalGeneration.from_pretrained(folder).eval(), WhisperFeatureExtractor.from_pretrained(folder)
    how = {"truncation": False, "padding": "longest", "return_attention_mask": True} if len(samples) > 480000 else {}
    x = mel(samples, return_tensors="pt", sampling_rate=16000, **how)
    if how:
        options["attention_mask"] = x.attention_mask
    with torch.no_grad():
        found = model.generate(input_features=x.input_features, return_segments=True, return_timestamps=True, max_new_tokens=LIMIT, **options)
    return [(round(float(s["start"]), 2), round(float(s["end"]), 2), s["tokens"].tolist()) for s in found["segments"][0]]


def main():
    mm, out = sys.argv[1:]
    failed = 0
    for seed in range(1, 6):
        folder = os.path.join(out, f"whisper-{seed}")
        write_model(folder, seed)
        for seconds in (1, 30, 70):
            sound = os.path.join(out, f"{seconds}.wav")
            samples = write_sound(sound, seconds)
            for options in ({"task": "transcribe"}, {"task": "translate", "language": "de"}):
                want = reference(folder, samples, **options)
                flags = [v for k, o in options.items() for v in ("--" + k, o)]
                run = [mm, "run", folder, "--audio", sound, "-n", str(LIMIT), "--format", "json", "-q", *flags]
                got = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)
                got = [(round(s["start"], 2), round(s["end"], 2), s["ids"]) for s in got["segments"]]
                same = got == want
                failed += not same
                print(f"seed {seed}, {seconds} s, {options}: {sum(len(s[2]) for s in want)} ids, {len(want)} segments: {'equal' if same else 'DIFFERENT'}", flush=True)
    sys.exit(f"{failed} runs differ" if failed else 0)


main()
