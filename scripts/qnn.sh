#!/usr/bin/env bash
# The backend qnn with Qualcomm's own libraries, which emulate an NPU: contexts
# compiled for four chips and run by both ways, refusals, damaged files, killed
# children, quantised ports, noise on standard output; whole language models,
# which say what the backend core says (stories260K of ../shared/data, the
# shipped core). mm installs the
# libraries with pip, under Qualcomm's licence, into MM_QNN_HOME (default
# ../.qnn-home): read it first, and say MM_QNN_ACCEPT_LICENCE=1; or MM_QNN_LIB and
# MM_QNN_LIB_OLD name folders that have those of QAIRT 2.51 and of 2.47. Without
# either it is skipped, and the reason printed. MM_HOSTILE: how many damaged
# files (200).
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 MM_HOSTILE=${MM_HOSTILE:-200}
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: the libraries are for Linux on x86-64"; exit 0
fi
if [ -z "${MM_QNN_LIB:-}" ]; then
  if [ "${MM_QNN_ACCEPT_LICENCE:-}" != 1 ]; then
    echo "skipped: MM_QNN_LIB names no libraries, and Qualcomm's licence is not accepted (MM_QNN_ACCEPT_LICENCE=1)"; exit 0
  fi
  export MM_HOME=${MM_QNN_HOME:-$PWD/../.qnn-home}
  mkdir -p "$MM_HOME/bin"
  go build -o "$MM_HOME/bin/mm" ./cmd/mm
  go build -o "$MM_HOME/bin/mm-native" ./cmd/mm-native
  for version in 2.3.0 2.7.0; do
    "$MM_HOME/bin/mm" runtime install "qnn@$version" --accept-license ||
      { echo "skipped: the packages of qnn $version are not to be had here"; exit 0; }
  done
  "$MM_HOME/bin/mm" qnn probe
  MM_QNN_LIB=$(ls -d "$MM_HOME"/engines/qnn/2.51.*)
  MM_QNN_LIB_OLD=$(ls -d "$MM_HOME"/engines/qnn/2.47.*)
  export MM_QNN_LIB MM_QNN_LIB_OLD
fi
# LiteRT's compiler plugin, of the version that belongs to QAIRT 2.47, makes models of its
# own kind; it wants more of Qualcomm's libraries than mm keeps, so that the package is
# installed beside it. Where pip does not install both those tests are skipped.
if [ -z "${MM_QNN_LITERT:-}" ]; then
  venv=${MM_QNN_LITERT_VENV:-$PWD/../.qnn-litert}
  if { [ -x "$venv/bin/python" ] || python3 -m venv "$venv"; } && "$venv/bin/pip" install -q --no-deps --only-binary=:all: ai-edge-litert==2.2.0 onnxruntime-qnn==2.3.0 flatbuffers==25.12.19 numpy; then
    MM_QNN_LITERT_LIB=$(cd "$venv"/lib/python3*/site-packages/onnxruntime_qnn && pwd)
    export MM_QNN_LITERT=$venv/bin/python MM_QNN_LITERT_LIB
  else
    echo "left out: pip does not install ai-edge-litert 2.2.0 and onnxruntime-qnn 2.3.0 here"
  fi
fi
go test -count=1 -v -timeout 60m ./runtimes/qnn/... ./cmd/mm-native/qnnlib
go test -count=1 -v -timeout 60m -run TestLanguage ./assemble/compile
go test -count=1 -v -timeout 30m -run "TestNPULanguage|TestRunCompiled|TestRunSamples|TestRunVersions" ./cmd/mm
go test -count=1 -v -timeout 30m -run "TestStatic|TestNoC|TestNoVendorFiles" ./internal/repotest
