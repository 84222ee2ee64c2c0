#!/usr/bin/env bash
# Training speed beside PyTorch's, eager and compiled: bench-torch.py, with one
# thread and with two. mm and PyTorch take turns in one run.
#
#   scripts/bench-torch.sh [ROUNDS] [SIZE…]    3 rounds; 1.3M 1.3M-B16 3.9M 30M
#
# MM_PYTHON is a Python with torch 2.4 or later; without it nothing is
# measured. MM_CPU=avx2 holds both to AVX2. MM_BENCH_THREADS asks for other
# numbers of threads than "1 2". PyTorch's threads wait for each other in every
# operation: on a machine with other work, two of them are slower than one.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
. scripts/torch.sh 'import torch; torch.nn.RMSNorm'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/mm" ./cmd/mm
export TORCHINDUCTOR_CACHE_DIR=$work/inductor
"$python" scripts/bench-torch.py "$work/mm" "$work" "$rounds" "${@:2}"
