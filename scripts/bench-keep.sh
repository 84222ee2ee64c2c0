#!/bin/bash
# Measures the first token of the second turn of a conversation in a new process, with the kept
# sequence and without it, alternating, and compares the answers.
#
#   scripts/bench-keep.sh MODEL.gguf TEXT [WORDS] [RUNS]
#
# The first turn is the first WORDS words of TEXT, 1100 by default. MM names another mm.
set -euo pipefail
model=$(realpath "$1") text=$(realpath "$2") words=${3:-1100} runs=${4:-3}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${MM:-}" ]; then cp "$MM" "$work/mm"; else ${GO:-go} build -o "$work/mm" ./cmd/mm; fi
export MM_HOME=$work/home
cd "$work"
tr -s ' \n' ' ' <"$text" | cut -d' ' -f1-"$words" >long
./mm run "$model" --keep ./first.json --prompt "$(cat long)" -n 16 --quiet >/dev/null
mv home/cache/sequences saved
TIMEFORMAT='%R %U'
# turn NAME: a second turn with the sequences in home/cache/sequences
turn() {
	cp first.json turn.json
	took=$({ time ./mm run "$model" --keep ./turn.json --prompt 'What is this about?' -n 16 --quiet --json >"$1"; } 2>&1)
	value() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" "$2"; }
	echo "| $1 | $(value prompt_tokens "$1") | $(value cached_tokens "$1") | $(value first_token_ms "$1") | ${took% *} | ${took#* } |"
}
echo "| sequence | tokens | cached | first token ms | process s | CPU s |"
echo "|---|---|---|---|---|---|"
for run in $(seq "$runs"); do
	rm -rf home/cache/sequences && turn none
	rm -rf home/cache/sequences && cp -r saved home/cache/sequences && turn kept
	cmp <(sed -n '/"tokens"/,/]/p' none) <(sed -n '/"tokens"/,/]/p' kept)
done
