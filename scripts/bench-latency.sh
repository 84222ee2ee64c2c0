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
go build -o "$work" ./cmd/mm ./cmd/mm-native ./tools/latency
export MM_NATIVE=$work/mm-native
mkdir -p "$MM_HOME"
if [ -d "$engines/engines" ]; then cp -R "$engines/engines" "$MM_HOME"; fi
"$work/mm" keys generate >/dev/null
# A graph by its name: assembled with all that it reads pictures and sounds with,
# whatever its modules are called, and measured by the reference that it has.
build() {
  local file=builds/$1.graph.yaml parts
  parts=$(sed -nE 's/^ *-? *(enc|proj): *\{ref: *([a-z0-9._-]+).*/\2/p' "$file" | sort -u | paste -sd, -)
  "$work/mm" assemble "$file" --target laptop --export gguf=int4,kv=fp8 --export "onnx=$parts" --sign default >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
  echo "$1:$(sed -nE 's/^version: *([^ ]+).*/\1/p' "$file")"
}
lite=$(build p-lite)
playbook=$(build playbook)
pairs=("-core core -functions onnx")
if [ -d "$MM_HOME/engines" ]; then pairs+=("-core llamacpp -functions onnxruntime"); fi
for pair in "${pairs[@]}"; do
  for ref in "$lite" "$playbook"; do
    # shellcheck disable=SC2086 # a pair is several words
    "$work/latency" -mm "$work/mm" -build "$ref" $pair "$@"
  done
done
