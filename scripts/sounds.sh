#!/bin/sh
# Compares core/preprocess with libsndfile on sounds of every format, depth and
# rate and prints a table. Installs soundfile into a temporary folder.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet soundfile==0.14.0 numpy
"$dir/venv/bin/python" scripts/sounds.py "$dir/sounds.json.gz"
MM_SOUNDS="$dir/sounds.json.gz" ${GO:-go} test -count=1 -v -run 'TestSounds$' ./core/preprocess
