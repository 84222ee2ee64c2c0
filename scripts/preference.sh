#!/bin/sh
# Losses and gradients of mm's preferences beside TRL's, on the same batch, made anew.
# MM_PYTHON names a Python with torch, transformers and trl.
set -eu
python=${MM_PYTHON:-python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$python" scripts/preference.py trl "$dir/trl.safetensors" 2>/dev/null
"$python" scripts/preference.py golden "$dir/losses.json"
cmp "$dir/losses.json" train/preference/testdata/losses.json
rc=0
MM_PREFERENCE=$dir/trl.safetensors go test ./train/preference -run 'TestTRL|TestLossGolden' -v -count=1 >"$dir/log" || rc=$?
grep -v '^=== RUN' "$dir/log"
exit $rc
