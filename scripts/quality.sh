#!/bin/sh
# Shows what each way of quantising costs on a real model: size, perplexity and
# divergence from the float model on held-out stories, and tokens a second; by
# mm and by llama.cpp's library, without and with an importance matrix, and by
# AWQ and GPTQ.
#
#   scripts/quality.sh [flags of tools/libllama/bench quality]
#
# MM_NATIVE_DIR is the folder that scripts/fetch-native.sh filled; ../.native
# when it is not set. The text is ../shared/data/tinystories; models are
# written to .bench (1 GB). All rows take about an hour of processor time:
# -types and -ways choose some.
set -eu

cd "$(dirname "$0")/.."
native=${MM_NATIVE_DIR:-../.native}
if [ ! -d "$native/lib" ]; then
	echo "no $native/lib: run scripts/fetch-native.sh $native, or set MM_NATIVE_DIR" >&2
	exit 1
fi
exec go run ./tools/libllama/bench quality -native "$native" -dir .bench "$@"
