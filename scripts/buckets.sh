#!/usr/bin/env bash
# The drivers of object stores against servers of others: versitygw (S3),
# fake-gcs-server (Google Cloud Storage) and azurite (Azure), and mm bucket cp
# through a kill. Installs what is missing into .bench; a server that cannot be
# installed is skipped by name. MM: a program instead of the one built here.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD bin=$PWD/.bench/bin
work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$bin"

install() { # MODULE BINARY
  [ -x "$bin/$2" ] && return 0
  echo "installing $1" >&2
  GOBIN=$work/gobin GOFLAGS=-mod=mod CGO_ENABLED=0 ${GO:-go} install "$1" >&2 && mv "$work/gobin/$2" "$bin/$2"
}
ready() { # PORT
  for _ in $(seq 150); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0; sleep 0.1; done
  echo "no server at port $1"; return 1
}
suite() { # NAME, as in Test${NAME}Server
  ${GO:-go} test -count=1 -v -run "Test$1Server" ./registry/bucket >"$work/$1.log" 2>&1 || { cat "$work/$1.log"; exit 1; }
  echo "$1: $(grep -c -- '--- PASS: Test.*Server/' "$work/$1.log") parts of the suite pass"
}
mm=${MM:-$work/mm}
[ -n "${MM:-}" ] || CGO_ENABLED=0 ${GO:-go} build -o "$mm" ./cmd/mm
export MM_HOME=$work/home
head -c 200000000 /dev/urandom >"$work/large"
total=$(stat -c %s "$work/large")

# killed SECONDS ADDRESS: an upload is killed, the next one continues it, and so
# for the download.
killed() {
  local moment
  for moment in $1; do
    { timeout -s KILL "$moment" "$mm" bucket cp "$work/large" "$2/large" >/dev/null || true; } 2>/dev/null
  done
  "$mm" bucket cp "$work/large" "$2/large" >/dev/null 2>&1
  for moment in 0.1 0.2; do
    { timeout -s KILL "$moment" "$mm" bucket cp "$2/large" "$work/back" >/dev/null || true; } 2>/dev/null
  done
  "$mm" bucket cp "$2/large" "$work/back" --require-sha256 >/dev/null 2>&1
  cmp "$work/large" "$work/back"
  [ "$(find "$work" -maxdepth 1 -name '.*part*' | wc -l)" = 0 ]
  rm "$work/back"
  echo "$2: $total bytes equal after killed uploads and downloads"
}

# A small core and a run with adapters above it, whose checkpoints go to each store.
mkdir "$work/t"
for i in $(seq 300); do echo "the fox number $i ran to hill $((i % 7)) and looked at the dog"; done >"$work/t/text.txt"
cat >"$work/t/core.yaml" <<'END'
name: core
model: {vocab_size: 300, dim: 256, layers: 8, heads: 4, context: 32}
data: {files: [text.txt], separator: "\n", held_out: 0.05}
tokenizer: {control: [<bos>, <eos>], bos: <bos>, eos: <eos>}
batch_size: 4
stop: {steps: 2}
END
sed 's/^name: core/base: core\/last.safetensors\nlora: {rank: 4}\nsave_every: 4/; s/steps: 2/steps: 24/' "$work/t/core.yaml" >"$work/t/adapters.yaml"
"$mm" train "$work/t/core.yaml" --out "$work/t/core" >/dev/null 2>&1
"$mm" train "$work/t/adapters.yaml" --out "$work/t/whole" --steps 12 >/dev/null 2>&1
"$mm" train "$work/t/adapters.yaml" --out "$work/t/whole" --resume --steps 24 >/dev/null 2>&1

# deltas ADDRESS: a run with adapters saves to the store, is killed, and continues in
# another folder to the same checkpoint; later saves send what the steps changed.
deltas() {
  timeout -s KILL 1 "$mm" train "$work/t/adapters.yaml" --out "$work/t/one" --checkpoints "$1" >/dev/null 2>&1 || true
  rm -rf "$work/t/one"
  "$mm" train "$work/t/adapters.yaml" --out "$work/t/one" --steps 12 --checkpoints "$1" >/dev/null 2>"$work/t/log" ||
    "$mm" train "$work/t/adapters.yaml" --out "$work/t/one" --steps 12 --resume --checkpoints "$1" >/dev/null 2>"$work/t/log"
  "$mm" train "$work/t/adapters.yaml" --out "$work/t/two" --resume --steps 24 --checkpoints "$1" >/dev/null 2>>"$work/t/log"
  "$mm" bucket cp "$1/last.safetensors" "$work/t/back.safetensors" --require-sha256 >/dev/null 2>&1
  cmp "$work/t/back.safetensors" "$work/t/two/last.safetensors"
  python3 - "$work/t/whole/last.safetensors" "$work/t/back.safetensors" <<'END'
import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
assert tensors(sys.argv[1]) == tensors(sys.argv[2]), "the continued run differs from the uninterrupted one"
END
  sed -n 's/.*saved .*last.safetensors of step \([0-9]*\) (\(.*\) sent)/step \1: \2/p' "$work/t/log" | paste -sd, | sed "s|^|$1: of $(stat -c %s "$work/t/back.safetensors") bytes were sent: |"
  rm -rf "$work/t/one" "$work/t/two" "$work/t/back.safetensors"
}

# data ADDRESS: a run and a data set read their data from the store, equal to those of
# the file; another content of an object is refused by its address.
data() {
  local text=$work/t/text.txt sum
  sum=$(sha256sum "$text" | cut -d' ' -f1)
  head -n 150 "$text" >"$work/t/1.txt"
  tail -n +151 "$text" >"$work/t/2.txt"
  for part in 1 2; do "$mm" bucket cp "$work/t/$part.txt" "$1/parts/$part.txt" >/dev/null 2>&1; done
  "$mm" bucket cp "$text" "$1/text.txt" >/dev/null 2>&1
  sed "s|text.txt|$1/parts/|" "$work/t/core.yaml" >"$work/t/remote.yaml"
  "$mm" train "$work/t/remote.yaml" --out "$work/t/remote" >/dev/null 2>"$work/t/log"
  [ "$(grep -c "data set $1/parts/[12].txt, sha256:" "$work/t/log")" = 2 ]
  diff <("$mm" eval lm "$work/t/core/last.safetensors" --json) <(cd "$work/t" && "$mm" eval lm remote/last.safetensors --data "$work/t" --json)
  "$mm" bucket cp "$work/t/1.txt" "$1/parts/2.txt" >/dev/null 2>&1
  if "$mm" train "$work/t/remote.yaml" --out "$work/t/remote" --steps 4 --resume 2>"$work/t/log"; then exit 1; fi
  grep -q "$1/parts/2.txt: got sha256" "$work/t/log"
  printf 'version: 1\nname: set\nsources:\n  - {id: a, path: %s, sha256: "%s", license: MIT, separator: "\\n"}\n' "$1/text.txt" "$sum" >"$work/t/m.data.yaml"
  "$mm" data build "$work/t/m.data.yaml" --out "$work/t/set" >/dev/null 2>"$work/t/log"
  sed "s|$1/||" "$work/t/m.data.yaml" >"$work/t/local.data.yaml"
  "$mm" data build "$work/t/local.data.yaml" --out "$work/t/local" >/dev/null 2>"$work/t/log"
  cmp "$work/t/set/train.jsonl" "$work/t/local/train.jsonl"
  # A large object is read in order, in ranges: the peak memory stays.
  "$mm" bucket cp "$work/large" "$1/large.txt" >/dev/null 2>&1
  printf 'version: 1\nname: set\nsources:\n  - {id: a, path: %s, sha256: "%s", license: MIT}\n' "$1/large.txt" "$(sha256sum "$work/large" | cut -d' ' -f1)" >"$work/t/large.data.yaml"
  /usr/bin/env python3 - "$mm" "$work/t/large.data.yaml" "$1" "$total" <<'END'
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run([sys.argv[1], "data", "check", sys.argv[2]], check=True, stdout=subprocess.DEVNULL)
wall = time.monotonic() - start
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
assert peak < 150, f"{peak} MiB"
print(f"{sys.argv[3]}: data read in place, equal to the files; {int(sys.argv[4]) / wall / 1e6:.0f} MB/s, {peak} MiB at most")
END
  rm -rf "$work/t/remote" "$work/t/set" "$work/t/local"
}

if install github.com/versity/versitygw/cmd/versitygw@v1.8.0 versitygw; then
  mkdir -p "$work/s3/bucket"
  ROOT_ACCESS_KEY=id ROOT_SECRET_KEY=secretsecret "$bin/versitygw" --port 127.0.0.1:7070 posix "$work/s3" >"$work/versitygw.log" 2>&1 &
  pids+=($!)
  ready 7070
  export AWS_ENDPOINT_URL=http://127.0.0.1:7070 AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secretsecret AWS_REGION=us-east-1
  MM_BUCKETS_S3=bucket suite S3
  killed "0.4 0.8" s3://bucket/killed
  deltas s3://bucket/run
  data s3://bucket/data
else
  echo "skipped: versitygw cannot be installed"
fi

if install github.com/fsouza/fake-gcs-server@v1.56.1 fake-gcs-server; then
  mkdir -p "$work/gs/bucket"
  "$bin/fake-gcs-server" -scheme http -host 127.0.0.1 -port 4443 -backend filesystem -filesystem-root "$work/gs" -external-url http://127.0.0.1:4443 >"$work/gcs.log" 2>&1 &
  pids+=($!)
  ready 4443
  export STORAGE_EMULATOR_HOST=http://127.0.0.1:4443
  MM_BUCKETS_GS=bucket suite GS
  killed "0.8 1.2" gs://bucket/killed
  deltas gs://bucket/run
  data gs://bucket/data
else
  echo "skipped: fake-gcs-server cannot be installed"
fi

azurite=.bench/azurite/node_modules/azurite/dist/src/blob/main.js
[ -e "$azurite" ] || { command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix .bench/azurite azurite@3.35.0 >&2; } || true
if [ -e "$azurite" ]; then
  node "$azurite" --blobHost 127.0.0.1 --blobPort 10000 --location "$work/azure" --skipApiVersionCheck --disableTelemetry >"$work/azurite.log" 2>&1 &
  pids+=($!)
  ready 10000
  # The account and the key that azurite documents.
  export AZURE_STORAGE_CONNECTION_STRING="AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"
  MM_BUCKETS_AZURE=devstoreaccount1/container suite Azure
  killed "0.8 1.2" azure://devstoreaccount1/container/killed
  deltas azure://devstoreaccount1/container/run
  data azure://devstoreaccount1/container/data
else
  echo "skipped: azurite cannot be installed"
fi
