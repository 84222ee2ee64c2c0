#!/usr/bin/env bash
# How long mm takes to start: --version and the check of a graph to their end,
# and a model's file to the first byte of its answer, each in an empty home.
# Median, least and most of 20, in milliseconds.
#
#   scripts/bench-start.sh [MODEL.gguf]
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/mm" ./cmd/mm
export MM_HOME=$work/home
model=${1:-catalog/core-llm/core-llm.gguf}

measure() { # name, command that ends when the moment has come
  local name=$1 from to
  shift
  for _ in $(seq 20); do
    rm -rf "$MM_HOME"
    from=$(date +%s%N)
    "$@" >/dev/null 2>&1
    to=$(date +%s%N)
    echo $(((to - from) / 1000))
  done | sort -n | awk -v name="$name" '{t[NR] = $1} END {printf "%-34s median %6.1f  least %6.1f  most %6.1f ms\n", name, (t[10] + t[11]) / 2000, t[1] / 1000, t[20] / 1000}'
}

first() { head -c 1 < <("$work/mm" run "$model" "Once upon a time" -n 16 2>/dev/null); }

measure "mm --version" "$work/mm" --version
measure "mm validate builds/p-lite.graph.yaml" "$work/mm" validate builds/p-lite.graph.yaml
measure "mm run $(basename "$model"), first text" first
