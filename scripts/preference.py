"""Losses, gradients and adapters of mm beside PyTorch, TRL and PEFT.

  preference.py golden FILE     writes losses and derivatives by PyTorch's formulas
  preference.py trl FILE        writes a batch with the losses and gradients of TRL's DPOTrainer

The formulas are those of trl/trainer/dpo_trainer.py, kto_trainer.py and
experimental/orpo/orpo_trainer.py, in float64.
"""

import json
import math
import random
import sys

import torch
import torch.nn.functional as F


def log1mexp(x):
    return torch.where(x < -math.log(2), torch.log1p(-torch.exp(x)), torch.log(-torch.expm1(x)))


def loss(objective, nats, reference, tokens):
    """Sum of the losses of pairs; rows are chosen, rejected and, for KTO, unrelated."""
    kind, beta, eps = objective["kind"], objective["beta"], objective.get("smoothing", 0.0)
    rows = 3 if kind == "kto" else 2
    logps, ref = -nats.view(-1, rows), -reference.view(-1, rows)
    n = tokens.view(-1, rows)
    ratio = logps - ref
    if kind == "dpo":
        delta = ratio[:, 0] - ratio[:, 1]
        return (-F.logsigmoid(beta * delta) * (1 - eps) - F.logsigmoid(-beta * delta) * eps).sum()
    if kind == "ipo":
        return ((ratio[:, 0] / n[:, 0] - ratio[:, 1] / n[:, 1] - 1 / (2 * beta)) ** 2).sum()
    if kind == "orpo":
        a, b = logps[:, 0] / n[:, 0], logps[:, 1] / n[:, 1]
        odds = (a - b) - (log1mexp(a) - log1mexp(b))
        return (-a - beta * F.logsigmoid(odds)).sum()
    kl = ratio[:, 2].mean().detach().clamp(min=0)
    good, bad = torch.sigmoid(beta * (ratio[:, 0] - kl)), torch.sigmoid(beta * (kl - ratio[:, 1]))
    return ((1 - good) + (1 - bad)).sum() / 2


def golden(path):
    random.seed(7)
    cases = []
    for kind in ["dpo", "ipo", "orpo", "kto"]:
        for i in range(6):
            objective = {"kind": kind, "beta": round(random.uniform(0.05, 1.5), 3)}
            if kind == "dpo" and i % 2:
                objective["smoothing"] = round(random.uniform(0.01, 0.4), 3)
            rows = 3 if kind == "kto" else 2
            answers = []
            for _ in range(rows * random.randint(1, 3)):
                n = random.randint(1, 40)
                nats = n * random.uniform(0.02, 3)
                answers.append([nats, max(nats + random.gauss(0, 4), 0.1), n])
            t = torch.tensor(answers, dtype=torch.float64)
            nats = t[:, 0].clone().requires_grad_()
            value = loss(objective, nats, t[:, 1], t[:, 2])
            value.backward()
            cases.append({"objective": objective, "answers": answers, "loss": value.item(), "factors": nats.grad.tolist()})
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


VOCAB, EOS, PAD = 24, 1, 0


def tiny(seed):
    """A small Llama with random weights of the size that gradients have effect."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=4, max_position_embeddings=32, tie_word_embeddings=False, rms_norm_eps=1e-6,
        bos_token_id=None, eos_token_id=EOS, pad_token_id=PAD))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.6 if p.dim() == 2 else 0.2) + (0 if p.dim() == 2 else 1))
    return model


def words(n, r):
    return " ".join(f"w{r.randrange(2, VOCAB)}" for _ in range(n))


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    t = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w2"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="w1", pad_token="w0", unk_token="w2")


def trained(kind, beta, policy, reference, rows, folder):
    """The loss and the gradients of one batch by TRL's own trainer."""
    import datasets.arrow_dataset
    import trl
    from datasets import Dataset

    datasets.arrow_dataset.generate_fingerprint = lambda *_: "mm"  # some versions of pyarrow and dill fail at it

    common = dict(output_dir=folder, per_device_train_batch_size=len(rows), beta=beta, report_to=[], use_cpu=True, bf16=False,
                  gradient_checkpointing=False, disable_dropout=True, max_length=32, logging_strategy="no", save_strategy="no")
    if kind == "kto":
        rows = [dict(prompt=r["prompt"], completion=r[k], label=k == "chosen") for r in rows for k in ("chosen", "rejected")]
        common["per_device_train_batch_size"] = len(rows)
        args, trainer = trl.KTOConfig(loss_type="kto", **common), trl.KTOTrainer
    else:
        args, trainer = trl.DPOConfig(loss_type=["sigmoid" if kind == "dpo" else kind], **common), trl.DPOTrainer
    t = trainer(model=policy, ref_model=reference, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer())
    batch = next(iter(t.get_train_dataloader()))
    policy.zero_grad()
    policy.train()
    loss = t.compute_loss(policy, dict(batch))
    loss.backward()
    return loss.item(), batch


def against_trl(path):
    """Writes a batch with TRL's losses and gradients, for mm's test."""
    import tempfile

    from safetensors.torch import save_file

    r = random.Random(11)
    rows = [dict(prompt=words(r.randint(2, 5), r), chosen=words(r.randint(2, 6), r), rejected=words(r.randint(2, 6), r)) for _ in range(3)]
    reference = tiny(1)
    out, cases = {f"reference.{k}": v.detach().clone() for k, v in reference.state_dict().items()}, []
    for kind, beta in [("dpo", 0.1), ("dpo", 0.7), ("ipo", 0.4)]:
        policy = tiny(1)
        torch.manual_seed(5)
        with torch.no_grad():
            for p in policy.parameters():
                p.add_(torch.randn_like(p) * 0.05)
        if not any(k.startswith("policy.") for k in out):
            out.update({f"policy.{k}": v.detach().clone() for k, v in policy.state_dict().items()})
        with tempfile.TemporaryDirectory() as folder:
            loss, batch = trained(kind, beta, policy, reference, rows, folder)
        name = f"{kind}-{beta}"
        cases.append(dict(name=name, kind=kind, beta=beta, loss=loss))
        out.update({f"{name}.{k}": p.grad.detach().clone() for k, p in policy.named_parameters()})
        out["input_ids"], out["completion_mask"] = batch["input_ids"].int().contiguous(), batch["completion_mask"].int().contiguous()
        out["attention_mask"] = batch["attention_mask"].int().contiguous()
        print(f"{name}: loss {loss:.7f}")
    save_file(out, path, metadata={"cases": json.dumps(cases)})


if __name__ == "__main__":
    {"golden": golden, "trl": against_trl}[sys.argv[1]](*sys.argv[2:])
