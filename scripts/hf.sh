#!/bin/sh
# Compares the engine with Hugging Face transformers: builds a Python with
# torch and transformers, makes a small random model of every architecture
# that docs/MODELS.md claims, turns each into GGUF as `mm module import hf`
# does, and compares logits at every position and a greedy text; then runs each
# folder and its module by the command line.
#
#   scripts/hf.sh [DIR]     DIR keeps the Python and the models (default: .native/hf)
#
# KEYS=1 changes every key of config.json as well, one at a time (half an hour).
#
# The Python is of some gigabytes; another one that has torch and transformers
# may be named by MM_PYTHON.
set -eu

dir=${1:-.native/hf}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
python=${MM_PYTHON:-$dir/venv/bin/python}
if [ -z "${MM_PYTHON:-}" ] && [ ! -x "$python" ]; then
	python3 -m venv "$dir/venv"
	"$python" -m pip install --quiet torch==2.15.0 transformers==5.23.0 safetensors numpy
fi
script=core/hf/testdata/models.py
if ! [ -f "$dir/models/ready" ] || [ "$script" -nt "$dir/models/ready" ]; then
	"$python" "$script" "$dir/models" 2>"$dir/log" || { cat "$dir/log"; exit 1; }
	touch "$dir/models/ready"
fi
status=0
MM_HF_DIR=$dir/models ${GO:-go} test -count=1 -v -run 'Test(Restore)?Transformers' ./core/hf >"$dir/table" 2>&1 || status=$?
MM_HF_DIR=$dir/models ${GO:-go} test -count=1 -v -run TestTextFolders ./cmd/mm >>"$dir/table" 2>&1 || status=$?
if [ -n "${KEYS:-}" ]; then
	"$python" core/hf/testdata/keys.py "$dir/models" "$dir/keys" 2>"$dir/log" || { cat "$dir/log"; exit 1; }
	MM_HF_KEYS=$dir/keys ${GO:-go} test -count=1 -v -run TestTransformersKeys ./core/hf >>"$dir/table" 2>&1 || status=$?
fi
grep -v '^=== ' "$dir/table"
exit $status
