#!/usr/bin/env bash
# Compiles Polymath's own scopes for SM8750, runs them in emulation and prints
# one table: sizes, seconds, cosines on the model's own states.
#
# SmolLM2-135M has its real weights (MM_NATIVE_DIR, scripts/fetch-native.sh).
# Qwen2.5-1.5B and SmolLM3-3B have their real widths, heads and rotations, but
# random weights, the vocabulary of bytes, and so many layers as memory allows:
# lab/testdata/scopes/*.json. The models are kept in dist/scopes/models (1.6 GB).
# MM_QNN_LIB is the folder of Qualcomm's libraries; if it is not set, those that
# mm runtime install qnn installed are used. ONLY names SCOPE and SCOPE/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: the libraries that emulate are for Linux on x86-64"; exit 0
fi
out=dist/scopes
mkdir -p "$out/models"
mm=${MM:-$out/mm}
if [ -z "${MM:-}" ]; then
  export CGO_ENABLED=0
  go build -o "$out/" ./cmd/mm ./cmd/mm-native
  export MM_NATIVE=$PWD/$out/mm-native
fi
smollm=${MM_NATIVE_DIR:-.native}/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$smollm" ]; then
  echo "skipped: no $smollm: scripts/fetch-native.sh fetches it, MM_NATIVE_DIR names the folder"; exit 0
fi
ln -sfn "$(realpath "$smollm")" "$out/models/smollm2-135m.gguf"
for name in qwen2.5-1.5b smollm3-3b; do
  [ -f "$out/models/$name.gguf" ] && continue
  rm -rf "$out/models/$name"
  "$mm" module new core "$name" --shape "lab/testdata/scopes/$name.json" --seed 1 --dir "$out/models/$name" > /dev/null
  mv "$out/models/$name/$name.gguf" "$out/models/$name.gguf"
  rm -r "$out/models/$name"
done
only=() libs=()
for cell in ${ONLY:-}; do only+=(--only "$cell"); done
[ -n "${MM_QNN_LIB:-}" ] && libs=(--libs "$MM_QNN_LIB")
nice -n 10 "$mm" lab truth "$out/records.jsonl" --matrix lab/testdata/scopes/matrix.json --fill "${only[@]}" "${libs[@]}" --out "$out/table.md"
