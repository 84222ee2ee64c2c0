#!/usr/bin/env bash
# What mm costs on a file of SIZE MiB (default 1024), beside the machine's own
# SHA-256 of the same file in the same run: assemble by hash and hard link,
# assemble and push again with nothing changed, push, pull. CPU time, median,
# ratio; nothing gates.
set -euo pipefail
cd "$(dirname "$0")/.."
mib=${1:-1024}
work=$(mktemp -d "${BENCH_DIR:-$PWD}/.bench-XXXXXX")
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/mm" ./cmd/mm
go build -o "$work/measure" ./tools/measure
mm=$work/mm measure=$work/measure
export MM_HOME=$work/home MM_KEY_PASSWORD= DOCKER_CONFIG=$work/docker

# A core of about the size asked for: two layers, 18 d² parameters in F16.
d=$(awk -v m="$mib" 'BEGIN {print int(sqrt(m * 1048576 / 2 / 18) / 64) * 64}')
"$mm" module new core core-llm --version 1.0.0 --d-model "$d" --dir "$work/modules/core-llm" >/dev/null
file=$work/modules/core-llm/core-llm.gguf
chmod 444 "$file"
echo "file of $(($(stat -c %s "$file") >> 20)) MiB, d_model $d"
echo "modules: [modules]" >"$work/mm.yaml" # not the checkout's
cat >"$work/b.graph.yaml" <<Y
core:
  llm: {ref: core-llm@1.0.0}
exports:
  laptop:
    gguf: {quant: fp16}
Y
"$measure" -sha256 "$file" >/dev/null # warm page cache

echo "== assemble, empty home (hash, hard link)"
"$measure" -n 3 -before "chmod -R u+w $work/home $work/dist 2>/dev/null; rm -rf $work/home $work/dist" \
  "sha256 of the file" "$measure" -sha256 "$file" -- \
  "mm assemble" "$mm" assemble "$work/b.graph.yaml" --out "$work/dist"
echo "== again, nothing changed"
"$mm" keys generate >/dev/null
"$mm" assemble "$work/b.graph.yaml" --out "$work/dist" --sign default >/dev/null 2>&1
"$measure" -n 3 \
  "sha256 of the file" "$measure" -sha256 "$file" -- \
  "mm assemble" "$mm" assemble "$work/b.graph.yaml" --out "$work/dist"
echo "== verify (every byte), run's check"
"$measure" -n 3 \
  "sha256 of the file" "$measure" -sha256 "$file" -- \
  "mm verify" "$mm" verify "$work/dist"

"$mm" registry serve --layout "$work/served" --addr 127.0.0.1:5463 >"$work/log" 2>&1 &
for _ in $(seq 50); do curl -fs http://127.0.0.1:5463/v2/ >/dev/null && break; sleep 0.1; done
echo "== push to mm registry serve, pull into an empty home"
"$measure" -n 1 "sha256 of the file" "$measure" -sha256 "$file" -- \
  "mm push" "$mm" push "$work/dist" 127.0.0.1:5463/team/b:0.1.0 -- \
  "mm push again" "$mm" push "$work/dist" 127.0.0.1:5463/team/b:0.1.0
"$measure" -n 1 "sha256 of the file" "$measure" -sha256 "$file" -- \
  "mm pull" env MM_HOME="$work/away" "$mm" pull 127.0.0.1:5463/team/b:0.1.0 --key "$work/home/keys/mm.pub" -- \
  "mm pull again" env MM_HOME="$work/away" "$mm" pull 127.0.0.1:5463/team/b:0.1.0 --key "$work/home/keys/mm.pub"
