#!/bin/sh
# Compares mm with the client of the model hub, huggingface_hub, both ways, at the hub
# in memory of registry/registrytest; then the figures of cards (scripts/cards.sh).
#
#   scripts/hub.sh     needs python3, or MM_PYTHON with huggingface_hub
set -eu
cd "$(dirname "$0")/.."
if [ -z "${MM_PYTHON:-}" ]; then
	[ -x .native/hub/bin/python ] || python3 -m venv .native/hub
	.native/hub/bin/pip install --quiet huggingface_hub==2.4.0
	MM_PYTHON=$PWD/.native/hub/bin/python
fi
export MM_PYTHON
${GO:-go} test -count=1 -v -run TestHuggingFaceHub ./registry/hub
exec scripts/cards.sh
