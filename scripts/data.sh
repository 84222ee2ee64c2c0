#!/usr/bin/env bash
# The data way beside its judges: Presidio, datasketch, mlcroissant and PyArrow,
# and 10 GB of JSON lines through mm data build (speed, resident memory).
#
#   MM_PYTHON=…   Python with presidio-analyzer 2.2.366, datasketch 2.0.0,
#                 mlcroissant 1.1.1 and pyarrow (default: python3)
#   LINES=4000    lines with and without personal data
#   COPIES=20     times that a file of 500 MB is read; 0 skips it
set -euo pipefail
cd "$(dirname "$0")/.."
python=${MM_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 MM=$work/mm
go build -o "$MM" ./cmd/mm
"$python" scripts/data.py near
"$python" scripts/data.py croissant
"$python" scripts/data.py parquet
"$python" scripts/data.py pii "${LINES:-4000}"
copies=${COPIES:-20}
if [ "$copies" = 0 ]; then exit; fi
"$python" - "$work/big.jsonl" <<'EOF'
import json, random, sys
r = random.Random(5)
words = ["".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(r.randint(2, 9))) for _ in range(20000)]
size = 0
with open(sys.argv[1], "w") as f:
    while size < 500_000_000:
        line = r.choices(words, k=r.randint(60, 240))
        if r.random() < 0.1:
            line[3:3] = [f"mail bob.smith{r.randrange(9999)}@example.com on 2024-03-05 at 10:30, 42 of 1,200 items"]
        text = json.dumps({"text": " ".join(line) + ".", "lang": r.choice(["en", "de"])}) + "\n"
        f.write(text)
        size += len(text)
EOF
digest=$(sha256sum "$work/big.jsonl" | cut -c1-64)
{
  printf 'version: 1\nname: big\nwhere: lang == "en"\npii: {action: scrub}\nsplits: {held_out: 0.01, test: 0.01}\nsources:\n'
  for i in $(seq "$copies"); do echo "  - {id: s$i, path: big.jsonl, sha256: $digest, license: MIT}"; done
} >"$work/big.data.yaml"
began=$(date +%s%N)
"$MM" data build "$work/big.data.yaml" --out "$work/out" >/dev/null &
process=$!
peak=0 first=0 n=0
while kill -0 $process 2>/dev/null; do
  resident=$(awk '/VmRSS/{print $2}' /proc/$process/status 2>/dev/null || true)
  n=$((n + 1))
  if [ "${resident:-0}" -gt $peak ]; then peak=$resident; fi
  if [ $n = 10 ]; then first=$peak; fi
  sleep 1
done
wait $process
seconds=$((($(date +%s%N) - began) / 1000000))
bytes=$(($(stat -c %s "$work/big.jsonl") * copies))
echo "$((bytes / 1000000)) MB in $((seconds / 1000)) s: $((bytes / 1000 / seconds)) MB/s; resident memory after 10 s $((first / 1024)) MiB, at most $((peak / 1024)) MiB"
