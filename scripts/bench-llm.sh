#!/bin/sh
# Measures mm's engine beside llama.cpp's library, on the same files and with
# the same numbers of threads, taking turns. Models of random weights are
# written to .bench once (2.2 GB).
#
#   scripts/bench-llm.sh [flags of tools/libllama/bench]
#
# With -levels avx2,vnni there is a run for each level of mm's kernels (MM_CPU),
# beside llama.cpp's kernels for the same instructions.
#
# MM_NATIVE_DIR is the folder that scripts/fetch-native.sh filled; ../.native
# when it is not set.
set -eu

cd "$(dirname "$0")/.."
native=${MM_NATIVE_DIR:-../.native}
if [ ! -d "$native/lib" ]; then
	echo "no $native/lib: run scripts/fetch-native.sh $native, or set MM_NATIVE_DIR" >&2
	exit 1
fi
exec go run ./tools/libllama/bench -native "$native" -dir .bench "$@"
