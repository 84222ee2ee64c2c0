"""Writes train/torch/testdata/dcp with the trainer of an exported project.

    mm train export torch RECIPE.yaml --out PROJECT
    torchrun --nproc-per-node 2 scripts/torch-fixture.py PROJECT train/torch/testdata/dcp

Five steps under FSDP2 on two processes, the weights as a checkpoint of
torch.distributed.checkpoint, and the logits of a sequence.
"""

import argparse
import json
import pathlib
import shutil
import sys

project, out = (pathlib.Path(a).resolve() for a in sys.argv[1:])
sys.path.insert(0, str(project))

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import train
from torch.distributed.checkpoint.state_dict import get_model_state_dict

args = argparse.Namespace(strategy="fsdp", precision=None, device="cpu", steps=5, log_every=None, compile=False, out=project / "out")
args.out.mkdir(exist_ok=True)
t = train.Trainer(json.loads((project / "run.json").read_text()), args)
for _ in range(5):
    t.advance()
t.save()
dcp.save({"model": get_model_state_dict(t.model)}, checkpoint_id=out)
ids = [i * 7 % t.run["model"]["vocab_size"] for i in range(t.run["seq_len"])]
hook = t.model.forward
t.model.forward = t.model.logits
with torch.no_grad():
    logits = t.model(torch.tensor([ids]), torch.zeros(1, len(ids), dtype=torch.long))[0]
t.model.forward = hook
if t.rank == 0:
    shutil.copy(args.out / "step-5" / "mm.safetensors", out)
    (out / "logits.json").write_text(json.dumps({"ids": ids, "logits": [[round(v, 6) for v in row] for row in logits.tolist()]}) + "\n")
dist.barrier()
dist.destroy_process_group()
