#!/usr/bin/env bash
# Holds the reader of context binaries to what Qualcomm's libQnnSystem says of
# the same files: fresh ones for four chips, those of ../shared/data/qnn, and
# 2,000 damaged copies. The libraries come out of a package that pip installs by
# its name into MM_QNN_VENV (default ../.qnn), under Qualcomm's licence, which
# is in it; or from MM_QNN_LIB, a folder that has them. Without either it is
# skipped, and the reason printed.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${MM_QNN_VENV:-$PWD/../.qnn}
lib=${MM_QNN_LIB:-}
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: the libraries are for Linux on x86-64"; exit 0
fi
if [ -z "$lib" ]; then
  if ! compgen -G "$venv/lib/python3*/site-packages/onnxruntime_qnn/libQnnSystem.so" > /dev/null; then
    python3 -m venv "$venv" && "$venv/bin/pip" install -q --no-deps --only-binary=:all: onnxruntime-qnn==2.7.0 ||
      { echo "skipped: pip does not install onnxruntime-qnn 2.7.0 here"; exit 0; }
  fi
  lib=$(dirname "$(compgen -G "$venv/lib/python3*/site-packages/onnxruntime_qnn/libQnnSystem.so")")
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 scripts/qnn-reference.py "$lib" "$out" --damaged "${MM_HOSTILE:-2000}" $(ls ../shared/data/qnn/*.bin 2> /dev/null || true) > "$out/log" 2>&1 ||
  { tail -5 "$out/log"; echo "the libraries of $lib do not work here"; exit 1; }
tail -1 "$out/log"
MM_QNN_REFERENCE=$out go test -count=1 -v -run TestReference ./onnx/htp
