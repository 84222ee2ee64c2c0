#!/bin/sh
# Puts the backend test data of ONNX, which the repository does not hold, into
# $ONNX_SUITE (default: .native/onnx-suite beside the repository), from the
# Python package onnx, and runs core/graph on it.
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
ONNX_SUITE="$dir" ${GO:-go} test -count=1 -v -run TestSuite ./core/graph
