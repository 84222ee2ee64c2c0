#!/usr/bin/env bash
# How many digits that a build speaks pocketsphinx hears right: rows of digits
# that the decoder was not trained on, asked for in wordings that it was not
# trained on, and in the plainest. Each digit is judged by itself (chance: 10 %).
#
#   BUILD=…        what mm run takes (builds/playbook.graph.yaml, assembled here)
#   N=…            digits of each (900, of some 510 prompts)
#   MM_PYTHON=…    a Python with the package pocketsphinx; without it nothing is
#                  judged, and that is said
set -euo pipefail
cd "$(dirname "$0")/.."
python=${MM_PYTHON:-python3}
if ! "$python" -c "import pocketsphinx" 2>/dev/null; then
  echo "skipped: no pocketsphinx: pip install pocketsphinx"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0
go build -o "$work" ./cmd/mm ./tools/recite
build=${BUILD:-}
if [ -z "$build" ]; then
  export MM_HOME=$work/home MM_KEY_PASSWORD=
  "$work/mm" keys generate >/dev/null
  "$work/mm" assemble builds/playbook.graph.yaml --target "${TARGET:-laptop}" --sign default >"$work/assemble.log" 2>&1 || {
    cat "$work/assemble.log"
    exit 1
  }
  build=playbook:0.1.0
fi
"$work/recite" -build "$build" ${TARGET:+-target "$TARGET"} -n "${N:-900}" -out "$work/wordings-never-met"
"$work/recite" -build "$build" ${TARGET:+-target "$TARGET"} -n "${N:-900}" -out "$work/say-and-digits" -plain
judge=$PWD/scripts
cd "$work"
"$python" "$judge/judge-digits.py" wordings-never-met say-and-digits
