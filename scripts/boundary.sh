#!/usr/bin/env bash
# The sealed middle: the shipped core learns school arithmetic with its first
# layer, last layer and head alone. Afterwards every tensor of the checkpoint is
# compared with that of a checkpoint of the first step, by a reader that is not
# mm's. Wants ../shared/data and python3. Half a minute.
#
#   scripts/boundary.sh [DIR]     runs into DIR (default .bench/boundary)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.bench/boundary}
if [ ! -d ../shared/data ]; then
  echo "skipped: no ../shared/data"
  exit 0
fi
rm -rf "$out" && mkdir -p "$out"
CGO_ENABLED=0 go build -o "$out/mm" ./cmd/mm
"$out/mm" train catalog/recipes/boundary.yaml --out "$out/first" --steps 1 2>&1 | grep -E 'parameters|held out'
"$out/mm" train catalog/recipes/boundary.yaml --out "$out/run" --plot "$out/loss.svg" 2>&1 | grep -E 'held out|ended'
python3 - "$out/first/last.safetensors" "$out/run/last.safetensors" <<'P'
import hashlib, json, struct, sys

def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    meta = next(json.loads(v) for k, v in head["__metadata__"].items() if v.startswith("{"))
    body = data[8 + size:]
    return meta, {k: hashlib.sha256(body[slice(*v["data_offsets"])]).hexdigest() for k, v in head.items()
                  if k != "__metadata__" and not k.startswith("optimizer.") and k != "tokenizer.gguf"}

(first, a), (last, b) = tensors(sys.argv[1]), tensors(sys.argv[2])
sealed = last["frozen"]
same = {k for k in a if a[k] == b[k]}
print(f"{len(sealed)} tensors sealed: {len(same & set(sealed))} have the same bytes after step 1 and after step {last['step']}, "
      f"and {sum(first['frozen'][k] == sealed[k] for k in sealed)} the same recorded digest")
print(f"{len(set(a) - set(sealed))} tensors train: {len(set(a) - set(sealed) - same)} of them moved")
sys.exit(not set(sealed) == same)
P
