#!/usr/bin/env bash
# Training speed beside phi-auto's (numpy over OpenBLAS). Machines differ, so
# phi-auto's figures are scaled by what NumPy's float32 product of 512³ reaches
# here over the 105 (one thread) and 148 (two) GFLOP/s that it reached where
# they were taken. NumPy and mm take turns; medians of ROUNDS rounds (default 3).
#
#   scripts/bench-train.sh [ROUNDS]
#
# MM_PYTHON is a Python with NumPy; where it has none, a virtual environment with
# numpy 2.4.6 is made in .bench/venv. The BPE part wants ../shared/data.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${MM_PYTHON:-python3}
if ! "$python" -c 'import numpy' 2>/dev/null; then
  python=.bench/venv/bin/python
  [ -x "$python" ] || { mkdir -p .bench && python3 -m venv .bench/venv && "$python" -m pip install --quiet numpy==2.4.6; }
fi
CGO_ENABLED=0 go build -o "$work/mm" ./cmd/mm
mm=$work/mm

cat >"$work/product.py" <<'P'
import time
import numpy as np
a, b, c = (np.random.rand(512, 512).astype("f4") for _ in range(3))
rates = []
for _ in range(200):
    t = time.perf_counter()
    np.dot(a, b, out=c)
    rates.append(2 * 512**3 / (time.perf_counter() - t) / 1e9)
print(max(rates[20:]))
P

# config NAME DIM LAYERS HEADS BATCH
config() {
  cat >"$work/$1.yaml" <<Y
name: $1
model: {vocab_size: 1024, dim: $2, layers: $3, heads: $4, context: 128}
data: {generate: {documents: 4000}}
tokenizer: {pre: mm-none}
batch_size: $5
optimizer: {weight_decay: 0.1}
stop: {steps: 90}
Y
}
config 1.3M-B4 128 4 4 4
config 1.3M-B16 128 4 4 16
config 3.9M-B4 192 6 6 4

median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# rates FILE: tokens a second of each logged step after the first.
rates() { grep '"event":"step"' "$1" | tail -n +2 | sed 's/.*"tok_s":\([0-9.e+]*\).*/\1/'; }

for round in $(seq "$rounds"); do
  for threads in 1 2; do
    OPENBLAS_NUM_THREADS=$threads "$python" "$work/product.py" >>"$work/numpy.$threads"
    for name in 1.3M-B4 1.3M-B16 3.9M-B4; do
      rm -rf "$work/run"
      "$mm" train "$work/$name.yaml" --out "$work/run" --threads "$threads" >/dev/null 2>&1
      rates "$work/run/metrics.jsonl" >>"$work/$name.$threads"
      [ "$name $round $threads" != "1.3M-B4 1 2" ] || cp "$work/run/last.safetensors" "$work/model.safetensors"
    done
  done
done

echo "NumPy $("$python" -c 'import numpy; print(numpy.__version__)'), float32 512³: $(median <"$work/numpy.1") GFLOP/s with one thread, $(median <"$work/numpy.2") with two"
printf '%-9s %7s %12s %15s %15s %6s\n' model threads 'mm tok/s' "phi-auto's" 'scaled' ratio
while read -r name threads theirs there; do
  ours=$(median <"$work/$name.$threads")
  here=$(median <"$work/numpy.$threads")
  awk -v n="$name" -v t="$threads" -v o="$ours" -v p="$theirs" -v h="$here" -v w="$there" \
    'BEGIN {s = p * h / w; printf "%-9s %7d %12.0f %15.0f %15.0f %6.2f\n", n, t, o, p, s, o / s}'
done <<T
1.3M-B4 1 7000 105
1.3M-B4 2 7100 148
1.3M-B16 1 7080 105
1.3M-B16 2 7160 148
3.9M-B4 1 2666 105
3.9M-B4 2 2876 148
T

echo
echo "GEMM beside the peak of fused multiply-adds on one core, measured in the same run:"
go test ./core/tensor -run '^$' -bench 'Gemm/512x512x512' -benchtime 1s | grep -E 'Benchmark' | sed 's/^Benchmark//'

echo
echo "Generation, 192 tokens after a prompt (phi-auto: 188 tok/s with one thread, 267 with two):"
(cd "$work" && "$mm" module pack model.safetensors --name bench-llm --version 1.0.0 --license MIT --quant fp32 --dir modules/bench-llm >/dev/null)
printf 'core:\n  llm: {ref: bench-llm@1.0.0}\n' >"$work/b.graph.yaml"
for threads in 1 2; do
  for round in $(seq "$rounds"); do
    "$mm" run "$work/b.graph.yaml" --threads "$threads" --prompt 'One day' --max-tokens 118 --temperature 0.8 --json |
      sed -n 's/.*"tokens_per_second": \([0-9]*\).*/\1/p'
  done >"$work/generation.$threads"
  echo "  $threads: $(median <"$work/generation.$threads") tok/s"
done

echo
echo "BPE on the TinyStories sample (phi-auto: training 0.034 MB/s of processor time, encoding 1.33 MB/s):"
go test ./core/tokenizer -run '^$' -bench 'Train/mm-none|EncodeTrained/mm-none' -benchtime 2s | grep -E 'Benchmark|skip' | sed 's/^Benchmark//'
