#!/usr/bin/env bash
# How long P-Lite takes to answer beside the playbook's budgets (§12), and the
# playbook's graph to hear, cold and warm, on both pairs of engines.
#
#   MM_ENGINES=…   home folder of the native engines (../.native/engines); without
#                  them mm's own alone are measured
#
# Machines have other things to do: least values say more than medians.
set -euo pipefail
cd "$(dirname "$0")/.."
engines=${MM_ENGINES:-$(cd .. && pwd)/.native/engines}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 MM_HOME=$work/home MM_KEY_PASSWORD=
go build -o "$work" ./cmd/mm ./cmd/mm-native ./internal/latency
export MM_NATIVE=$work/mm-native
mkdir -p "$MM_HOME"
if [ -d "$engines/engines" ]; then cp -R "$engines/engines" "$MM_HOME"; fi
"$work/mm" keys generate >/dev/null
"$work/mm" assemble builds/p-lite.graph.yaml --sign default >/dev/null 2>&1
"$work/mm" assemble builds/playbook.graph.yaml --export gguf=int4,kv=fp8 --export onnx=vision-enc,vision-proj,audio-enc,audio-proj --sign default >/dev/null 2>&1
pairs=("-core core -functions onnx")
if [ -d "$MM_HOME/engines" ]; then pairs+=("-core llamacpp -functions onnxruntime"); fi
for pair in "${pairs[@]}"; do
  "$work/latency" -mm "$work/mm" -build p-lite:0.1.0 $pair "$@"
  "$work/latency" -mm "$work/mm" -build playbook:0.1.0 $pair "$@"
done
