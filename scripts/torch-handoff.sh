#!/usr/bin/env bash
# Losses of 20 steps of exported PyTorch projects beside mm's, on one process and
# on two (MM_PYTHON: a Python with train/torch/project/requirements.txt; ONLY=names).
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${GO:-go}" build -o "$work/mm" ./cmd/mm
"${MM_PYTHON:-python3}" scripts/torch-handoff.py "$work/mm" "$work" ${ONLY:-}
