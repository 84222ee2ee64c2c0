"""Measures answers about a picture on a model with random weights of the shape of
SmolVLM-256M: processor seconds to the first token, of a caption of 32 tokens, and memory.

    python scripts/vlm-latency.py MM DIR

DIR keeps the folder of transformers, 0.5 GB. Each figure is the least of three runs of a new
process at two threads, with an empty cache of features; the wall clock counts the load of
the machine as well. Needs transformers 5.23, torch, torchvision and pillow.
"""
import json
import os
import subprocess
import sys
import time

import torch
from transformers import AutoModelForImageTextToText, CONFIG_MAPPING, SmolVLMProcessor
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor

import strangers

MM, DIR = sys.argv[1], sys.argv[2]
FOLDER = os.path.join(DIR, "smolvlm-256m")
VISION = dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=512, patch_size=16)
TEXT = dict(model_type="llama", hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64,
            vocab_size=49280, max_position_embeddings=8192, rope_parameters=dict(rope_type="default", rope_theta=100000.0), tie_word_embeddings=False)


def make():
    tok, tid = strangers.tokenizer(340)
    tok.add_tokens([f"<unused_{i}>" for i in range(TEXT["vocab_size"] - len(tok))])
    config = CONFIG_MAPPING["smolvlm"](vision_config=VISION, text_config=TEXT, scale_factor=4, image_token_id=tid("<image>"), tie_word_embeddings=False)
    image = SmolVLMImageProcessorPil(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512})
    proc = SmolVLMProcessor(image_processor=image, tokenizer=tok, video_processor=SmolVLMVideoProcessor(), image_seq_len=64)
    proc.chat_template = tok.chat_template = strangers.TEMPLATES["smolvlm"]
    torch.manual_seed(3)
    with torch.device("cpu"):
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float16)
    with torch.no_grad():
        model.lm_head.weight[tok.convert_tokens_to_ids(["</s>", "<end_of_utterance>", "<|im_end|>"])] = 0  # so that captions have 32 tokens
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters", flush=True)
    model.save_pretrained(FOLDER)
    proc.save_pretrained(FOLDER)
    tok.save_pretrained(FOLDER)


def run(n, *flags):
    """Returns processor seconds, wall seconds, peak MiB and the report of a run."""
    read, write = os.pipe()
    begin = time.perf_counter()
    child = subprocess.Popen([MM, "run", FOLDER, "--threads", "2", "--no-cache", "-n", str(n), "--json", *flags, "What is in this picture?"], stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"mm run: {status}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin, used.ru_maxrss / 1024, json.loads(text)


def main():
    os.makedirs(DIR, exist_ok=True)
    if not os.path.exists(os.path.join(FOLDER, "config.json")):
        make()
    files = []
    for w, h in ((512, 512), (640, 480)):
        files.append(os.path.join(DIR, f"{w}x{h}.png"))
        strangers.picture(0, w, h).save(files[-1])
    run(1)  # converts the folder, once
    print("| prompt | positions | first token, processor | caption, processor | tokens | caption, wall | peak memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, flags in [("words", [])] + [(os.path.basename(f)[:-4], ["--image", f]) for f in files]:
        first = [run(1, *flags) for _ in range(3)]
        full = [run(32, *flags) for _ in range(3)]
        timings = full[0][3]["timings"]
        print(f"| {name} | {timings['prompt_tokens']} | {min(r[0] for r in first):.2f} s | {min(r[0] for r in full):.2f} s | {timings['generated']} | {min(r[1] for r in full):.2f} s | {max(r[2] for r in full):.0f} MiB |", flush=True)


main()
