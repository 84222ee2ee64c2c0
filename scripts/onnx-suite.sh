#!/bin/sh
# Puts the backend test data of ONNX, which the repository does not hold, into
# $ONNX_SUITE (default: .native/onnx-suite beside the repository), from the
# Python package onnx, and runs both engines on it: onnx/engine, and ONNX Runtime
# 1.30.0 through mm-native, which is installed into the home folder $MM_ENGINES
# (default: .native/engines beside the repository) where it is not there yet.
set -eu
cd "$(dirname "$0")/.."
version=1.22.0
dir=${ONNX_SUITE:-$(cd .. && pwd)/.native/onnx-suite}
if [ ! -d "$dir/node" ]; then
	venv=$(mktemp -d)
	trap 'rm -rf "$venv"' EXIT
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --no-deps "onnx==$version"
	mkdir -p "$dir"
	cp -R "$venv"/lib/python3*/site-packages/onnx/backend/test/data/. "$dir/"
fi
home=${MM_ENGINES:-$(cd .. && pwd)/.native/engines}
if [ ! -d "$home/engines/onnxruntime/1.30.0" ]; then
	bin=$(mktemp -d)
	CGO_ENABLED=0 ${GO:-go} build -o "$bin" ./cmd/mm ./cmd/mm-native
	MM_HOME="$home" "$bin/mm" runtime install onnxruntime
	rm -rf "$bin"
fi
ONNX_SUITE="$dir" MM_ENGINES="$home" ${GO:-go} test -count=1 -v -run TestSuite ./onnx/engine ./runtimes/engines
