#!/bin/sh
# Measures native engines as mm runs them: ONNX Runtime through mm-native beside
# the library's own binding for Node, and llama.cpp through mm-native beside the
# library driven alone.
#
#   MM_MODELS_DIR=…   what scripts/fetch-models.sh fetched (../.models)
#   MM_NATIVE_DIR=…   what scripts/fetch-native.sh fetched (../.native)
#   MM_ENGINES=…      home folder of the engines (../.native/engines); what is
#                     not installed there is, through npm
#   MM_NODE=…         folder with the Node package (../.native/node), likewise
#
# Needs node and npm. The figures are medians and, since machines have other
# things to do as well, least values.
set -eu
cd "$(dirname "$0")/.."
up=$(cd .. && pwd)
models=${MM_MODELS_DIR:-$up/.models}
native=${MM_NATIVE_DIR:-$up/.native}
home=${MM_ENGINES:-$up/.native/engines}
node=${MM_NODE:-$up/.native/node}
data=$up/shared/data/onnx
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
export CGO_ENABLED=0
${GO:-go} build -o "$bin" ./cmd/mm ./cmd/mm-native ./tools/ortbench ./tools/libllama/bench
for engine in onnxruntime llamacpp; do
	[ -d "$home/engines/$engine" ] || MM_HOME=$home "$bin/mm" runtime install $engine
done
if [ ! -d "$node/node_modules/onnxruntime-node" ]; then
	mkdir -p "$node"
	(cd "$node" && npm init -y >/dev/null && npm install --ignore-scripts --no-audit --no-fund onnxruntime-node@1.30.0)
fi
"$bin/ortbench" -home "$home" -node "$node" "$@" \
	"mnist=$data/mnist.onnx:Input3=1x1x28x28" \
	"squeezenet=$data/squeezenet_tensor_input.onnx:data=1x3x227x227" \
	"silero-v6=$models/vad/silero_vad_v6.onnx:input=1x576,state=2x1x128,sr=i16000" \
	"oww=$models/oww/embedding_model.onnx:input_1=1x76x32x1" \
	"pp-det-320=$models/ocr/ch_PP-OCRv4_det_infer.onnx:x=1x3x320x320" \
	"pp-rec-320=$models/ocr/ch_PP-OCRv4_rec_infer.onnx:x=1x3x48x320"
echo
"$bin/bench" overhead -home "$home" -native "$native"
