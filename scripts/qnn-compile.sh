#!/usr/bin/env bash
# Compiles models for three of Qualcomm's chips and runs each in emulation beside
# our own engine: a layer of the shipped core, the vision encoder, the digits of
# mnist and SqueezeNet (../shared/data/onnx; left out, told, where it is not).
# Then a build with contexts in it is signed, pushed to a registry, pulled into
# another home, verified there and asked about charts by both engines. MM_QNN_LIB
# is the folder of the libraries; without it all is skipped, and the reason
# printed.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${MM_QNN_LIB:-}" ]; then
  echo "skipped: MM_QNN_LIB names no folder with Qualcomm's libraries"; exit 0
fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "skipped: the libraries that emulate are for Linux on x86-64"; exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export MM_HOME=$dir/home CGO_ENABLED=0
go build -o "$dir/" ./cmd/mm ./cmd/mm-native
mm=$dir/mm
go test -count=1 -v -timeout 60m -run "TestNPU|TestQuantised|TestSameBytes" ./assemble/compile | grep -v '^=== '
data=../shared/data/onnx
if [ -f "$data/mnist.onnx" ]; then
  "$mm" onnx cut "$data/squeezenet_tensor_input.onnx" --from data_bn --to fc --out "$dir/squeezenet.onnx" > /dev/null
  for soc in SM8550 SM8650 SM8750; do
    "$mm" qnn compile "$data/mnist.onnx" --target $soc --libs "$MM_QNN_LIB" --min-cosine 0.99 --out "$dir/mnist.$soc.bin"
    "$mm" qnn compile "$dir/squeezenet.onnx" --shape data_bn=1x3x227x227 --target $soc --libs "$MM_QNN_LIB" --min-cosine 0.99 --out "$dir/squeezenet.$soc.bin"
  done
else
  echo "left out: mnist and SqueezeNet, there is no $data"
fi
go test -count=1 -v -timeout 30m -run 'TestNPU$' ./cmd/mm | grep -v '^=== '
