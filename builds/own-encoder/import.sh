#!/bin/sh
# Makes the module oww-speech of openWakeWord's embedding_model.onnx:
#
#   ./import.sh FILE
#
# The head that makes one vector of three is left behind, and so is the Reshape that
# holds the file to 76 frames: what is cut takes sounds of any length and gives a
# vector of 96 numbers every 80 ms.
set -eu
mm onnx cut "$1" --from 'model/conv2d/Conv2D__6:0=float32[1,1,T,32]' \
  --to 'model/max_pooling2d_4/MaxPool:0=float32[1,96,T_enc,1]' --rows frame_tokens -o oww-speech.part
mm module import onnx oww-speech.part --dir oww-speech --name oww-speech --version 1.0.0 --license Apache-2.0 --cap window_ms=3000 \
  --preprocess '{layout: NCTM, sample_rate: 16000, chunk: 48000, window: 400, n_fft: 512, hop: 160, uncenter: true, n_mels: 32,'\
' f_min: 60, f_max: 3800, log: db, floor: 9.3e-20, range: 80, mean: [-110.309], std: [10]}'
rm oww-speech.part
