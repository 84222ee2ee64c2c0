#!/bin/sh
# Adapters of PEFT become modules and PEFT folders again; peft's logits are compared.
# MM_PYTHON names a Python with torch, transformers and peft.
set -eu
python=${MM_PYTHON:-python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/mm" ./cmd/mm
"$python" scripts/peft-adapters.py make "$dir" 2>/dev/null
for core in llama qwen3; do
  "$dir/mm" module import hf "$dir/$core" --name "$core" --version 1.0.0 --license MIT --dir "$dir/core-$core" >/dev/null
  for name in lora rslora patterns dora some-layers; do
    "$dir/mm" module import hf "$dir/$core/$name" --core "$dir/core-$core" --version 0.1.0 --license MIT --dir "$dir/adapter-$core-$name" >/dev/null
    "$dir/mm" export peft "$dir/adapter-$core-$name" --core "$dir/core-$core" --out "$dir/back/$core/$name" >/dev/null
  done
done
"$python" scripts/peft-adapters.py check "$dir" "$dir/back" 2>/dev/null
