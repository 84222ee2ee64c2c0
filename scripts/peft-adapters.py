"""Adapters of Hugging Face PEFT beside mm: tiny cores, adapters and their logits.

    python scripts/peft-adapters.py make DIR             # peft 0.21, transformers 5.23, torch 2.15
    python scripts/peft-adapters.py check DIR BACK       # adapters that mm exported again, in BACK

make writes CORE/ (a folder of transformers), CORE/NAME/ (a PEFT folder) and
CORE/NAME/logits.json. check loads BACK/CORE/NAME with peft and compares logits.
"""
import json
import os
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SHAPE = dict(vocab_size=264, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
             max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1)
CORES = {"llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)), "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(head_dim=4, **SHAPE))}
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": dict(r=4, lora_alpha=8, target_modules=ALL),
    "rslora": dict(r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj"]),
    "patterns": dict(r=4, lora_alpha=8, target_modules=["q_proj", "up_proj", "lm_head"], rank_pattern={"layers.1.self_attn.q_proj": 2},
                     alpha_pattern={"up_proj": 3}),
    "dora": dict(r=3, lora_alpha=6, use_dora=True, target_modules=["q_proj", "k_proj", "down_proj"]),
    "some-layers": dict(r=2, lora_alpha=2, target_modules=["o_proj", "k_proj"], layers_to_transform=[1]),
}
TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]]


def randomize(model, seed, every=True):
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if every or "lora_" in name:
                noise = torch.randn_like(p) * 0.3
                p.copy_(1 + noise if p.dim() == 1 and "magnitude" not in name else noise if p.dim() == 2 else p * (1 + noise))


def make(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator(["the cat sat on the mat"], trainers.BpeTrainer(
        vocab_size=SHAPE["vocab_size"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    for core, build in CORES.items():
        base = build()
        randomize(base, 1)
        base.save_pretrained(f"{folder}/{core}")
        tokenizer.save_pretrained(f"{folder}/{core}")
        for i, (name, settings) in enumerate(ADAPTERS.items()):
            model = get_peft_model(AutoModelForCausalLM.from_pretrained(f"{folder}/{core}"), LoraConfig(task_type="CAUSAL_LM", **settings))
            randomize(model, 2 + i, every=False)
            model.save_pretrained(f"{folder}/{core}/{name}")
            with open(f"{folder}/{core}/{name}/logits.json", "w") as f:
                json.dump({"tokens": TOKENS[0], "logits": [round(v, 6) for v in logits(model)]}, f)


def logits(model):
    model.eval()
    with torch.no_grad():
        return model(torch.tensor(TOKENS)).logits[0, -1].tolist()


def check(folder, back):
    worst = 0
    for core in CORES:
        for name in ADAPTERS:
            load = lambda path: logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(f"{folder}/{core}"), path))
            one, two = load(f"{folder}/{core}/{name}"), load(f"{back}/{core}/{name}")
            plain = logits(AutoModelForCausalLM.from_pretrained(f"{folder}/{core}"))
            off = max(abs(a - b) for a, b in zip(one, two))
            effect = max(abs(a - b) for a, b in zip(one, plain))
            print(f"{core}/{name}: logits differ by at most {off:.1e} (effect of the adapter {effect:.1e})")
            worst = max(worst, off if effect > 1e-3 else 1)
    if worst > 1e-5:
        sys.exit(f"logits differ by {worst}")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
