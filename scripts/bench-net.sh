#!/usr/bin/env bash
# Training speed of networks that are no language models, beside PyTorch's
# (eager): an encoder of pictures of 128×128 in squares of 16 and of 8 pixels,
# and a decoder that says velocities of 256 tokens, given 16 vectors; width 192,
# four blocks, batches of 16; and convolutions down from 64×64 pixels and up
# again. Both start from the same weights and learn the same
# batch by AdamW; they take turns of five steps, and the CPU seconds of a step
# are the least of a turn. The losses of both are compared step by step.
#
#   scripts/bench-net.sh [STEPS] [CASE…]    50 steps; vit16 vit8 dit cnn
#
# MM_PYTHON is a Python with torch; without it nothing is measured.
# MM_BENCH_THREADS is the number of threads of both, 1. MM_CPU=avx2 holds both to
# AVX2.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/torch.sh 'import torch, numpy'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/net" ./train/net
MM_TEST_NET_PEER=1 "$python" scripts/bench-net.py "$work/net" "$work" "${MM_BENCH_THREADS:-1}" "${1:-50}" "${@:2}"
