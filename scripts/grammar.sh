#!/bin/sh
# What is claimed of grammars, shown: random logits by the schemas of
# core/grammar/testdata and by schemas that are made up, judged by two validators;
# the JSON-Schema-Test-Suite; masks on vocabularies that are in use, and their cost.
#
#   MM_GRAMMAR=2000       texts of each schema
#   MM_NATIVE_DIR=…       holds llama.cpp with its vocabularies (../.native), and
#                         what is made here: grammar/venv with Python's jsonschema,
#                         and its source package, in which the suite is
#   MM_GRAMMAR_VOCABS=…   vocabularies, instead of those of llama.cpp
#
# What cannot be had is skipped, and the tests say so.
set -eu
cd "$(dirname "$0")/.."
native=${MM_NATIVE_DIR:-$(cd .. && pwd)/.native}
home=$native/grammar
version=4.26.0
mkdir -p "$home"
if [ ! -x "$home/venv/bin/python" ] || ! "$home/venv/bin/python" -c 'import jsonschema' 2>/dev/null; then
	python3 -m venv "$home/venv" && "$home/venv/bin/pip" install -q "jsonschema==$version" || echo "no Python with jsonschema"
fi
suite=$home/jsonschema-$version/json/tests
if [ ! -d "$suite" ]; then
	"$home/venv/bin/pip" download -q --no-deps --no-binary :all: -d "$home" "jsonschema==$version" &&
		tar -C "$home" -xzf "$home/jsonschema-$version.tar.gz" || echo "no suite"
fi
"$home/venv/bin/python" -c 'import llguidance' 2>/dev/null || "$home/venv/bin/pip" install -q "llguidance==1.9.1" || echo "no llguidance"
if "$home/venv/bin/python" -c 'import jsonschema' 2>/dev/null; then
	export MM_PYTHON="$home/venv/bin/python"
fi
[ ! -d "$suite" ] || export MM_GRAMMAR_SUITE="$suite"
if [ -z "${MM_GRAMMAR_VOCABS:-}" ]; then
	MM_GRAMMAR_VOCABS=4000
	for name in llama-spm llama-bpe qwen2 gemma-4; do
		file=$native/llama.cpp/models/ggml-vocab-$name.gguf
		if [ -f "$file" ]; then MM_GRAMMAR_VOCABS=$MM_GRAMMAR_VOCABS:$file; else echo "no vocabulary $file"; fi
	done
	export MM_GRAMMAR_VOCABS
fi
MM_GRAMMAR=${MM_GRAMMAR:-2000} exec ${GO:-go} test -count=1 -v -timeout 60m -run 'Random|MadeUp|Suite|Cost|Exact|Taken|RealTokens' ./core/grammar
