#!/usr/bin/env bash
# The unigram wall: phi-auto's model on its text, first with its recipe as it
# was run, then with ours; held-out n-gram lines of the same split; when each
# line was passed; loss curves as SVG. Wants ../shared/data. About four minutes.
#
#   scripts/wall.sh [DIR]     runs and curves into DIR (default .bench/wall)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.bench/wall}
if [ ! -d ../shared/data ]; then
  echo "skipped: no ../shared/data"
  exit 0
fi
mkdir -p "$out"
CGO_ENABLED=0 go build -o "$out/mm" ./cmd/mm
"$out/mm" eval lm catalog/recipes/wall.yaml --ngram
for name in wall-phi-auto wall; do
  echo
  rm -rf "${out:?}/$name"
  "$out/mm" train "catalog/recipes/$name.yaml" --out "$out/$name" --plot "$out/$name.svg" 2>&1 | grep -E 'parameters|ended|drew'
  awk -v name="$name" '
    /"event":"eval"/ {
      match($0, /"loss":[0-9.]+/); loss = substr($0, RSTART + 7, RLENGTH - 7) + 0
      match($0, /"seconds":[0-9.]+/); wall = substr($0, RSTART + 10, RLENGTH - 10)
      match($0, /"cpu_seconds":[0-9.]+/); cpu = substr($0, RSTART + 14, RLENGTH - 14)
      match($0, /"tokens":[0-9]+/); tokens = substr($0, RSTART + 9, RLENGTH - 9)
      split("5.5 3.97 3.39 3.00", lines)
      for (i = 1; i in lines; i++)
        if (!(i in passed) && loss <= lines[i] + 0) {
          passed[i] = 1
          printf "%-14s held out %.4f <= %s after %s tokens, %.1f s, %.1f CPU seconds\n", name, loss, lines[i], tokens, wall, cpu
        }
      last = loss
    }
    END { printf "%-14s held out %.4f at the end\n", name, last }' "$out/$name/metrics.jsonl"
done
