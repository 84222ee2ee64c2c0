#!/bin/sh
# Shows what each weight type costs on a real model: size, perplexity of mm and
# of llama.cpp's library on the same tokens, and tokens a second.
#
#   scripts/types.sh [flags of tools/libllama/bench precision]
#
# MM_NATIVE_DIR is the folder that scripts/fetch-native.sh filled; ../.native
# when it is not set. The text is ../shared/data/tinystories; models are
# written to .bench (1 GB).
set -eu

cd "$(dirname "$0")/.."
native=${MM_NATIVE_DIR:-../.native}
if [ ! -d "$native/lib" ]; then
	echo "no $native/lib: run scripts/fetch-native.sh $native, or set MM_NATIVE_DIR" >&2
	exit 1
fi
exec go run ./tools/libllama/bench precision -native "$native" -dir .bench "$@"
