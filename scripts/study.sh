#!/usr/bin/env bash
# The study of the unigram wall: trials, the answer, the evidence for its claims, charts.
# Wants ../shared/data. About seven minutes on two cores; continues after a kill.
#
#   scripts/study.sh [DIR]     run and charts into DIR (default .bench/study)
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-.bench/study}
if [ ! -d ../shared/data ]; then
  echo "skipped: no ../shared/data"
  exit 0
fi
mkdir -p "$out"
CGO_ENABLED=0 go build -o "$out/mm" ./cmd/mm
export MM_HOME="$out/home" MM_KEY_PASSWORD=study
[ -e "$out/home/keys/mm.key" ] || "$out/mm" keys generate --type ed25519 >/dev/null
resume=()
[ -d "$out/run/chain" ] && resume=(--resume)
"$out/mm" experiment run catalog/recipes/wall.study.yaml --out "$out/run" "${resume[@]}"
"$out/mm" experiment report "$out/run" --plot "$out" >/dev/null
for claim in winner wall capacity diversity slower; do
  echo
  "$out/mm" experiment explain "$out/run" "$claim"
done
