#!/bin/sh
# Compares mm with Hugging Face transformers on vision language models: makes a
# small random model of every family with scripts/strangers.py, runs its folder
# and its modules on pictures of many sizes, and compares greedy ids.
#
#   scripts/strangers.sh [DIR]     DIR keeps the Python and the models (default: .native/hf)
#
# The Python is of some gigabytes; another one that has torch, torchvision,
# transformers and pillow may be named by MM_PYTHON.
set -eu

dir=${1:-.native/hf}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
python=${MM_PYTHON:-$dir/vision/bin/python}
if [ -z "${MM_PYTHON:-}" ] && [ ! -x "$python" ]; then
	python3 -m venv "$dir/vision"
	"$python" -m pip install --quiet torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 pillow==12.1.0 safetensors numpy
fi
script=scripts/strangers.py
if ! [ -f "$dir/strangers/ready" ] || [ "$script" -nt "$dir/strangers/ready" ]; then
	rm -rf "$dir/strangers"
	"$python" "$script" "$dir/strangers" 2>"$dir/log" || { cat "$dir/log"; exit 1; }
	touch "$dir/strangers/ready"
fi
rc=0
MM_STRANGERS=$dir/strangers ${GO:-go} test -count=1 -v -timeout 30m -run TestVisionFolders ./cmd/mm >"$dir/log" || rc=$?
grep -v '^=== ' "$dir/log"
exit $rc
