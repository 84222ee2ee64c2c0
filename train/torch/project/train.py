#!/usr/bin/env python3
"""Trains the model of run.json, which `mm train export torch` wrote: see README.md.

    python train.py                                  one process
    torchrun --nproc-per-node 2 train.py             FSDP2 (fully_shard)
    torchrun --nproc-per-node 2 train.py --strategy ddp
"""

import argparse
import contextlib
import gc
import hashlib
import json
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_state_dict, set_model_state_dict, set_state_dict)
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import data
import model
import optimizers

HERE = pathlib.Path(__file__).resolve().parent


class Trainer:
    def __init__(self, run, args):
        self.run, self.args = run, args
        self.world, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        cuda = torch.cuda.is_available() and args.device != "cpu"
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if self.world > 1 or "RANK" in os.environ:
            dist.init_process_group("nccl" if cuda else "gloo")
        if run["batch_size"] % self.world:
            sys.exit(f"train.py: batch_size {run['batch_size']} is not a multiple of {self.world} processes")
        self.strategy = args.strategy or ("fsdp" if self.world > 1 else "single")
        self.bf16 = (args.precision or run["precision"]) == "bf16"
        self.step = 0
        self.build()
        self.text = data.Text(HERE / "data", "train")
        self.order = np.load(HERE / "data" / "order.npy", mmap_mode="r", allow_pickle=False)

    def build(self):
        """Builds the model, sharded or not, loads its weights and builds the optimizer."""
        run = self.run
        with torch.device("meta"):
            self.model = model.GPT(run["model"], run["lora"])
        wanted = {p["name"]: p for p in run["parameters"]}
        for name, p in self.model.named_parameters():
            p.requires_grad_(not wanted[model.name_in_mm(name)]["frozen"])
        if self.strategy == "fsdp":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if self.bf16 else MixedPrecisionPolicy()
            mesh = dist.device_mesh.init_device_mesh(self.device.type, (self.world,))
            for block in self.model.blk:
                fully_shard(block, mesh=mesh, mp_policy=policy)
            fully_shard(self.model, mesh=mesh, mp_policy=policy)
        self.model.to_empty(device=self.device)
        self.load_weights()
        if self.args.compile:
            for block in self.model.blk:
                block.compile()
        self.forward = self.model
        if self.strategy == "ddp":
            self.forward = DistributedDataParallel(self.model)
        groups = {}
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                w = wanted[model.name_in_mm(name)]
                groups.setdefault((w["decay"], w["rate"], w["hidden"]), []).append(p)
        self.optimizer = optimizers.build(run["optimizer"], [
            dict(params=params, weight_decay=run["optimizer"]["weight_decay"] if decay else 0.0, factor=rate, hidden=hidden)
            for (decay, rate, hidden), params in groups.items()])

    def load_weights(self):
        state = {}
        with safe_open(HERE / "weights.safetensors", "pt") as f:
            self.metadata = f.metadata()
            self.extra = {"tokenizer.gguf": f.get_tensor("tokenizer.gguf")} if "tokenizer.gguf" in f.keys() else {}
            if self.rank == 0 or self.strategy != "fsdp":
                state = {name: f.get_tensor(model.name_in_mm(name)) for name, _ in self.model.named_parameters()}
        shards = self.strategy == "fsdp"
        set_model_state_dict(self.model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=shards))

    def all_sum(self, value, dtype=torch.float64):
        t = torch.tensor(value, dtype=dtype if self.device.type != "mps" else torch.float32, device=self.device)
        if self.world > 1:
            dist.all_reduce(t)
        return t.item()

    def batches(self, step):
        """This process's rows of the batches of a step."""
        size, times = self.run["batch_size"], self.run["accumulate"]
        mine = size // self.world
        for i in range(times):
            at = (step * times + i) * size + self.rank * mine
            yield self.text.batch(self.order[at : at + mine], self.run["seq_len"], self.device)

    def autocast(self):
        on = self.bf16 and self.strategy != "fsdp"
        return torch.autocast(self.device.type, torch.bfloat16) if on else contextlib.nullcontext()

    def rate(self):
        run, s = self.run, self.run["stop"]
        done = self.step / s["steps"] if s["steps"] else 0.0
        if s["tokens"]:
            done = max(done, self.step * self.positions() / s["tokens"])
        free = run["optimizer"]["name"] == "schedule-free"
        return run["optimizer"]["lr"] * optimizers.schedule(run["schedule"], free, self.step, done)

    def positions(self):
        return self.run["accumulate"] * self.run["batch_size"] * self.run["seq_len"]

    def advance(self):
        """Runs one step and returns its mean loss, rate and gradient norm."""
        batches = list(self.batches(self.step))
        terms = max(self.all_sum(sum(int((targets >= 0).sum()) for _, targets, _ in batches)), 1)
        total = 0.0
        for i, (ids, targets, starts) in enumerate(batches):
            last = i == len(batches) - 1
            sync = contextlib.nullcontext()
            if self.strategy == "fsdp":
                self.model.set_requires_gradient_sync(last)
            elif self.strategy == "ddp" and not last:
                sync = self.forward.no_sync()
            with sync:
                with self.autocast():
                    loss = self.forward(ids, targets, starts)
                (loss * (self.world / terms)).backward()  # gradients are means over processes
            total += loss.item()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        norm = torch.nn.utils.get_total_norm([p.grad for p in trained])
        norm = (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()
        if not np.isfinite(norm):
            sys.exit(f"train.py: step {self.step + 1}: gradient norm {norm}")
        if 0 < self.run["clip"] < norm:
            for p in trained:
                p.grad.mul_(self.run["clip"] / norm)
        rate = self.rate()
        optimizers.set_rate(self.optimizer, rate)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return self.all_sum(total) / terms, rate, norm

    @torch.no_grad()
    def evaluate(self):
        """The held-out loss in nats a token."""
        text, size = data.Text(HERE / "data", "held"), self.run["seq_len"]
        windows = text.held_out(size, self.run["eval_windows"])
        rows = self.run["batch_size"] // self.world
        windows += [len(text)] * (-len(windows) % (rows * self.world))  # empty ones, so that all processes run as often
        total, terms = 0.0, 0
        for at in range(self.rank * rows, len(windows), rows * self.world):
            ids, targets, starts = text.batch(windows[at : at + rows], size, self.device)
            with self.autocast():
                total += self.forward(ids, targets, starts).item()
            terms += int((targets >= 0).sum())
        return self.all_sum(total) / max(self.all_sum(terms), 1)

    def save(self):
        """Writes a checkpoint to continue from and the weights as a checkpoint of mm."""
        folder = self.args.out / f"step-{self.step}"
        self.average(True)
        weights, state = get_state_dict(self.model, self.optimizer)
        dcp.save({"model": weights, "optimizer": state, "step": torch.tensor(self.step)}, checkpoint_id=folder)
        full = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        self.average(False)
        if self.rank == 0:
            self.write(self.args.out / "model.safetensors", {model.name_in_mm(k): v.float().contiguous() for k, v in full.items()})
            self.write(folder / "mm.safetensors", {})
        if self.world > 1:
            dist.barrier()

    def average(self, on):
        """Shows the mean weights of schedule-free, or returns to its training point."""
        if isinstance(self.optimizer, optimizers.ScheduleFree):
            (self.optimizer.average if on else self.optimizer.proceed)()

    def write(self, path, tensors):
        """Writes tensors with mm's header; without tensors, that of a folder of shards."""
        header = json.loads(self.metadata["mm.checkpoint"])
        tensors = {**tensors, **self.extra}
        digests = {k: hashlib.sha256(v.numpy().tobytes()).hexdigest() for k, v in tensors.items()}
        for name in header.get("frozen") or {}:
            if digests.get(name, header["digests"][name]) != header["digests"][name]:
                sys.exit(f"train.py: frozen tensor {name} changed")
        header.update(step=self.step, tokens=self.step * self.positions(), digests=digests)
        text = json.dumps(header, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        save_file(tensors, path, {"format": "pt", "mm.checkpoint": text, "mm.checkpoint.sha256": digest})

    def resume(self):
        steps = sorted(int(p.name[5:]) for p in self.args.out.glob("step-*") if (p / ".metadata").exists())
        if not steps:
            sys.exit(f"train.py: no checkpoint in {self.args.out}")
        weights, state = get_state_dict(self.model, self.optimizer)
        saved = {"model": weights, "optimizer": state, "step": torch.tensor(0)}
        dcp.load(saved, checkpoint_id=self.args.out / f"step-{steps[-1]}")
        set_state_dict(self.model, self.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
        self.step = int(saved["step"])
        self.average(False)

    def train(self):
        every, log, steps = self.run["save_every"], self.args.log_every or self.run["log_every"], self.args.steps or self.run["steps"]
        begin, sum_loss, count = time.time(), 0.0, 0
        while self.step < min(steps, self.run["steps"]):
            loss, rate, norm = self.advance()
            sum_loss, count = sum_loss + loss, count + 1
            if self.step % log == 0 or self.step == 1:
                self.report("step", loss=sum_loss / count, steps=count, lr=rate, grad_norm=norm, seconds=time.time() - begin)
                sum_loss, count = 0.0, 0
            if every and self.step % every == 0:
                self.save()
        if self.run["held_out"]:
            self.average(True)
            self.report("eval", loss=self.evaluate())
            self.average(False)
        self.save()

    def report(self, event, **values):
        if self.rank == 0:
            line = json.dumps(dict(event=event, step=self.step, tokens=self.step * self.positions(), **values))
            print(line, flush=True)
            with open(self.args.out / "metrics.jsonl", "a") as f:
                f.write(line + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, default=HERE / "out", help="folder of checkpoints and metrics")
    p.add_argument("--strategy", choices=["single", "ddp", "fsdp"], help="default: fsdp with several processes")
    p.add_argument("--precision", choices=["fp32", "bf16"], help="default: the recipe's")
    p.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda if available")
    p.add_argument("--steps", type=int, help="stop after this step; the schedule stays")
    p.add_argument("--log-every", type=int, help="default: the recipe's")
    p.add_argument("--compile", action="store_true", help="compile the blocks")
    p.add_argument("--resume", action="store_true", help="continue from the last checkpoint in --out")
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(json.loads((HERE / "run.json").read_text()), args)
    if args.resume:
        trainer.resume()
    trainer.train()
    if dist.is_initialized():
        del trainer  # its tensors use the process group
        gc.collect()
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
