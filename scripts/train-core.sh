#!/usr/bin/env bash
# Trains the reference core and its draft core by the recipes beside them and
# puts the modules in their places. Wants ../shared/data. The same recipe gives
# the same bytes on every machine of one kind of processor; about twenty minutes
# on two cores.
#
#   scripts/train-core.sh [DIR]     runs into DIR (default .bench/core)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.bench/core}
mkdir -p "$out"
CGO_ENABLED=0 go build -o "$out/mm" ./cmd/mm

cat >"$out/core-llm.about" <<'T'
The reference core: small enough to lie in the tree, and enough to tell a short story in the words of a small child,
add a little, and write a call of a tool in MM-ABI's form, behind which it stops: the answer is given to it, and it says
what it was told. It knows nothing of the world, and its own sums are often wrong.

Text: the first 2 MiB of TinyStories (Eldan and Li, arXiv 2305.07759; CDLA-Sharing-1.0) and stories, sums and tool
calls from the templates of `mm data generate`. English only. `<image>`, `<audio>` and `<video>` have their places in
the vocabulary and were never seen.
T
cat >"$out/draft-llm.about" <<'T'
Proposes tokens for core-llm, whose text and tokenizer it was trained with. It has no other use.
T

# place NAME VERSION DRAFT-FOR
place() {
  local run=$out/$1 packed=$out/$1.module
  [ -f "$run/best.safetensors" ] || "$out/mm" train "catalog/$1/train.yaml" --out "$run" --plot "$out/$1.svg"
  rm -rf "$packed"
  "$out/mm" module pack "$run/best.safetensors" --name "$1" --version "$2" --license Apache-2.0 --quant int8 \
    --recipe "catalog/$1/train.yaml" --about "$out/$1.about" --dir "$packed" ${3:+--draft "$3"}
  cp "$packed"/* "catalog/$1/"
}
place core-llm 3.1.0 ""
place draft-llm 1.1.0 core-llm@^3
"$out/mm" validate modules --files
for graph in builds/*.graph.yaml; do "$out/mm" lock "$graph"; done
