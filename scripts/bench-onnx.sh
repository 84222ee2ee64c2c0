#!/bin/sh
# Measures mm's ONNX engine beside ONNX Runtime, on the same models and inputs
# and with the same numbers of threads, in rounds that alternate, and prints a
# table in markdown: medians and least times of a run, the most memory that
# each process held (a Python's and a Go test's), and the time from a process's
# start to its first result, the least of three.
#
#   scripts/bench-onnx.sh [MODELS]     a regular expression of their names;
#                                      light: the large nets of ONNX_SUITE
#
# MM_MODELS_DIR is the folder that scripts/fetch-models.sh filled; without it
# the reference modules and ../shared/data/onnx are measured alone. The Python
# with onnxruntime is MM_PYTHON, or the one of MM_NATIVE_DIR. MM_BENCH_THREADS
# asks for one number of threads instead of 1 and 2, MM_BENCH_ROUNDS for more
# rounds than 15.
set -eu

cd "$(dirname "$0")/../onnx/engine"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go test -c -o "$bin/graph" .
MM_BENCH_ONNX=${1:-.} "$bin/graph" -test.run '^TestCompare$' -test.timeout 60m
