#!/usr/bin/env bash
# Reading long contexts beside PyTorch: the bench's Llama of 4 layers, 4 query
# heads and 2 key heads of 64, in float32, read at once. PyTorch's is the same
# network with random weights and scaled_dot_product_attention. They take turns;
# for each the least of ROUNDS (default 3) is printed: seconds of time elapsed and of
# processor time.
#
#   MM_PYTHON=venv/bin/python scripts/bench-long.sh
#
# TOKENS (8192 32768), THREADS (1), ROUNDS; MM_CPU=avx2 keeps both to AVX2.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/torch.sh 'import torch'
rounds=${ROUNDS:-3} threads=${THREADS:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go run ./tools/libllama/bench -native "" -dir .bench -models 5M-F32 -prefill 8 -decode 0 -rounds 1 >/dev/null
go test -c -o "$work/infer.test" ./core/infer

export OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads

cat >"$work/long.py" <<'P'
import sys
import time

import torch
import torch.nn.functional as F

layers, width, heads, keys, dim, hidden, vocab = 4, 256, 4, 2, 64, 768, 4096
tokens, threads = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
torch.manual_seed(1)


def matrix(rows, cols):
    return torch.randn(rows, cols) / cols**0.5


embedding = torch.randn(vocab, width)
blocks = [
    {
        "q": matrix(heads * dim, width), "k": matrix(keys * dim, width), "v": matrix(keys * dim, width),
        "o": matrix(width, heads * dim), "gate": matrix(hidden, width), "up": matrix(hidden, width),
        "down": matrix(width, hidden), "norms": (torch.ones(width), torch.ones(width)),
    }
    for _ in range(layers)
]
theta = 10000 ** (-torch.arange(0, dim, 2) / dim)


def rotate(x, angles):  # heads × tokens × dim
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def read(ids):
    n = len(ids)
    x = embedding[ids]
    angles = torch.arange(n)[:, None] * theta
    for b in blocks:
        h = F.rms_norm(x, (width,), b["norms"][0], 1e-5)
        q = rotate(F.linear(h, b["q"]).view(n, heads, dim).transpose(0, 1), angles)
        k = rotate(F.linear(h, b["k"]).view(n, keys, dim).transpose(0, 1), angles)
        v = F.linear(h, b["v"]).view(n, keys, dim).transpose(0, 1)
        k, v = (t.repeat_interleave(heads // keys, 0) for t in (k, v))
        a = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        x = x + F.linear(a.transpose(0, 1).reshape(n, heads * dim), b["o"])
        h = F.rms_norm(x, (width,), b["norms"][1], 1e-5)
        x = x + F.linear(F.silu(F.linear(h, b["gate"])) * F.linear(h, b["up"]), b["down"])
    return F.linear(F.rms_norm(x[-1:], (width,), torch.ones(width), 1e-5), embedding)


with torch.inference_mode():
    read(torch.arange(256) % vocab)  # warms up
    ids = torch.arange(tokens) * 7919 % 1000
    wall, cpu = time.perf_counter(), time.process_time()
    read(ids)
    print(time.perf_counter() - wall, time.process_time() - cpu)
P

# ours TOKENS prints seconds elapsed and of processor time.
ours() {
  MM_BENCH_MODEL=.bench/5M-F32.gguf MM_BENCH_TOKENS=$1 MM_BENCH_THREADS=$threads \
    "$work/infer.test" -test.run '^$' -test.bench '^BenchmarkPrefill$' -test.benchtime 1x |
    awk -v n="$1" '/^BenchmarkPrefill/ { for (i = 2; i <= NF; i++) { if ($i == "tok/s") wall = n / $(i-1); if ($i == "tok/cpu-s") cpu = n / $(i-1) } print wall, cpu }'
}

"$python" -c 'import torch; print("PyTorch", torch.__version__, "kernels", torch.backends.cpu.get_cpu_capability())'
for n in ${TOKENS:-8192 32768}; do
  : >"$work/mm" && : >"$work/torch"
  for _ in $(seq "$rounds"); do
    ours "$n" >>"$work/mm"
    "$python" "$work/long.py" "$n" "$threads" >>"$work/torch"
  done
  paste -d' ' "$work/mm" "$work/torch" | awk -v n="$n" -v t="$threads" '
    { for (i = 1; i <= 4; i++) if (NR == 1 || $i < least[i]) least[i] = $i }
    END { printf "%d tokens, %d threads: mm %.2f s (processor %.2f), PyTorch %.2f s (%.2f): ratio %.2f (%.2f)\n",
          n, t, least[1], least[2], least[3], least[4], least[3] / least[1], least[4] / least[2] }'
done
