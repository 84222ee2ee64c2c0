#!/usr/bin/env bash
# Fills the truth table of lab/testdata/truth.json: each scope of p-lite by our
# engines, by ONNX Runtime and for Qualcomm's chips in emulation, and prints it.
# TRUTH (dist/truth) keeps the records and the table: stopped, it goes on with the
# cells that have none. ONLY names SCOPE and SCOPE/TARGET to be tried.
# MM_QNN_LIB is the folder of Qualcomm's libraries, with ONNX Runtime beside them;
# without it all is skipped, and the reason printed.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${MM_QNN_LIB:-}" ]; then
  echo "skipped: MM_QNN_LIB names no folder with Qualcomm's libraries"; exit 0
fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: the libraries that emulate are for Linux on x86-64"; exit 0
fi
out=${TRUTH:-dist/truth}
mkdir -p "$out"
export MM_HOME=$PWD/$out/home CGO_ENABLED=0
case $out in /*) MM_HOME=$out/home ;; esac
go build -o "$out/" ./cmd/mm ./cmd/mm-native
export MM_NATIVE=$out/mm-native
case $out in /*) ;; *) MM_NATIVE=$PWD/$out/mm-native ;; esac
for lib in "${MM_NATIVE_DIR:-.native}"/venv/lib/python3*/site-packages/onnxruntime/capi; do
  if [ -d "$lib" ] && [ ! -d "$MM_HOME/engines/onnxruntime" ]; then
    "$out/mm" runtime install onnxruntime --from "$lib" > /dev/null
  fi
done
only=()
for cell in ${ONLY:-}; do only+=(--only "$cell"); done
nice -n 10 "$out/mm" lab truth "$out/records.jsonl" --matrix lab/testdata/truth.json --fill "${only[@]}" --libs "$MM_QNN_LIB" --out "$out/table.md"
