#!/bin/sh
# Sends a run to a real server of MLflow, killed at twenty points, and reads it back by MLflow's client.
# MM_PYTHON is a Python with mlflow (pip install mlflow==3.17.2); without it the check is skipped.
set -eu
cd "$(dirname "$0")/.."
python=${MM_PYTHON:-python3}
"$python" -c 'import mlflow' 2>/dev/null || { echo "SKIP  mlflow is not installed"; exit 0; }
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/mm" ./cmd/mm
"$python" -m mlflow server --backend-store-uri "sqlite:///$dir/ml.db" --artifacts-destination "$dir/artifacts" --workers 1 --port 5057 >"$dir/log" 2>&1 &
server=$!
cat >"$dir/small.yaml" <<'R'
name: small
model: {vocab_size: 260, dim: 16, layers: 1, heads: 1, context: 16}
data: {manifest: rows}
tokenizer: {}
batch_size: 2
seq_len: 16
log_every: 1
stop: {steps: 1500}
eval: {every: 100}
R
for i in $(seq 400); do echo "A fox ran to hill $i. The end."; done >"$dir/text.txt"
cat >"$dir/rows.data.yaml" <<R
version: 1
name: stories
splits: {held_out: 0.1}
sources:
  - {id: a, path: text.txt, format: text, separator: "\n", sha256: $(sha256sum "$dir/text.txt" | cut -c1-64), license: MIT}
R
export MLFLOW_TRACKING_URI=http://127.0.0.1:5057
"$dir/mm" data build "$dir/rows.data.yaml" --out "$dir/rows" >/dev/null
"$dir/mm" train "$dir/small.yaml" --out "$dir/run" >/dev/null 2>&1
for i in $(seq 120); do
	"$python" -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:5057/health")' 2>/dev/null && break
	sleep 1
done
for i in 05 10 15 20 25 30 35 40 45 50 55 60 65 70 75 80 85 90 95 99; do
	timeout -s KILL "0.$i" "$dir/mm" track sync "$dir/run" >/dev/null 2>&1 || true
done
"$dir/mm" track sync "$dir/run"
"$dir/mm" track sync "$dir/run"
ref=127.0.0.1:5000/team/small@sha256:$(sha256sum "$dir/run/best.safetensors" | cut -c1-64)
"$dir/mm" track register small "$ref" --alias prod
"$dir/mm" track register small "$ref" --alias prod
"$python" scripts/track.py "$MLFLOW_TRACKING_URI" "$ref"
