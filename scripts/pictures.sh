#!/bin/sh
# Compares core/preprocess with Pillow on pictures of every format and mode and
# prints a table. Installs Pillow into a temporary folder.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet pillow==13.0.0 simplejpeg==1.9.0 numpy
"$dir/venv/bin/python" -W ignore scripts/pictures.py "$dir/pictures.json.gz"
MM_PICTURES="$dir/pictures.json.gz" ${GO:-go} test -count=1 -v -run 'TestPictures$' ./core/preprocess
