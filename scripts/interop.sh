#!/usr/bin/env bash
# Signatures and registries of others: what mm pushes into distribution and
# go-containerregistry's registry verifies with cosign, for the index and each
# manifest, and what cosign signs verifies with mm, which refuses cosign's older form by
# name. Needs scripts/peers.sh. MM is the program (default: it is built).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PEERS:-$PWD/.bench/bin}
for tool in cosign registry-ggcr registry-distribution; do
  [ -x "$bin/$tool" ] || { echo "skipped: no $bin/$tool (scripts/peers.sh installs it)"; exit 0; }
done
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT
mm=${MM:-$work/mm}
[ -n "${MM:-}" ] || CGO_ENABLED=0 go build -o "$mm" ./cmd/mm
export MM_HOME=$work/home MM_KEY_PASSWORD= COSIGN_PASSWORD= DOCKER_CONFIG=$work/docker
mkdir -p "$DOCKER_CONFIG"

"$bin/registry-ggcr" -port 5460 >"$work/ggcr.log" 2>&1 &
cat >"$work/distribution.yml" <<Y
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $work/distribution}}
http: {addr: 127.0.0.1:5461}
Y
"$bin/registry-distribution" serve "$work/distribution.yml" >"$work/distribution.log" 2>&1 &
"$mm" registry serve --layout "$work/own" --addr 127.0.0.1:5462 >"$work/own.log" 2>&1 &
for port in 5460 5461 5462; do
  for _ in $(seq 50); do curl -fs "http://127.0.0.1:$port/v2/" >/dev/null && break; sleep 0.1; done
done

"$mm" keys generate >/dev/null
"$mm" assemble builds/p-lite.graph.yaml --out "$work/dist" --sign default >/dev/null 2>&1
"$mm" assemble builds/m-lite.graph.yaml --target laptop --out "$work/bare" >/dev/null 2>&1
n=0
for port in 5460 5461 5462; do
  repo=127.0.0.1:$port/team/p-lite
  "$mm" push "$work/dist" "$repo:0.1.0" 2>/dev/null >/dev/null
  for tag in 0.1.0 0.1.0-laptop 0.1.0-workstation; do
    "$bin/cosign" verify --key "$MM_HOME/keys/mm.pub" --insecure-ignore-tlog=true "$repo:$tag" >"$work/out" 2>&1 ||
      { echo "cosign refuses $repo:$tag"; cat "$work/out"; exit 1; }
    echo "cosign verifies what mm signed: $repo:$tag"
    n=$((n + 1))
  done
  # The other way round: a build without a signature, signed by cosign with a
  # key of its own, is what mm wants.
  "$mm" assemble builds/m-lite.graph.yaml --target laptop >/dev/null 2>&1
  "$mm" push m-lite:0.1.0 "127.0.0.1:$port/team/m-lite:0.1.0" >"$work/pushed" 2>/dev/null
  digest=$(sed 's/.*@//' "$work/pushed")
  [ -e "$work/cosign.key" ] || (cd "$work" && "$bin/cosign" generate-key-pair >/dev/null 2>&1)
  if "$mm" pull "127.0.0.1:$port/team/m-lite:0.1.0" --as "unsigned-$port:0.1.0" >/dev/null 2>&1; then
    echo "mm took an unsigned artifact"; exit 1
  fi
  "$bin/cosign" sign -y --key "$work/cosign.key" --tlog-upload=false --use-signing-config=false --allow-insecure-registry "127.0.0.1:$port/team/m-lite@$digest" >"$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }
  "$mm" pull "127.0.0.1:$port/team/m-lite:0.1.0" --key "$work/cosign.pub" --as "m-lite-$port:0.1.0" >/dev/null 2>&1 ||
    { echo "mm refuses what cosign signed"; "$mm" pull "127.0.0.1:$port/team/m-lite:0.1.0" --key "$work/cosign.pub"; exit 1; }
  echo "mm verifies what cosign signed: 127.0.0.1:$port/team/m-lite:0.1.0"
  n=$((n + 1))
  # The form of cosign before version 3, under tags, is refused by its name.
  old=127.0.0.1:$port/old/m-lite
  "$mm" push "$work/bare" "$old:0.1.0" >"$work/pushed" 2>/dev/null
  bare=$(sed 's/.*@//' "$work/pushed")
  older() { "$bin/cosign" "$@" -y --new-bundle-format=false --key "$work/cosign.key" --tlog-upload=false --use-signing-config=false --allow-insecure-registry "$old@$bare" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }; }
  refused() { # CODE TEXT mm's arguments
    if "$mm" "${@:3}" >/dev/null 2>"$work/out"; then echo "mm took what it does not read: $*"; exit 1; fi
    grep -q "$1.*$2" "$work/out" || { cat "$work/out"; exit 1; }
  }
  older sign
  refused MM0620 'the tag sha256-.*[.]sig holds a signature in the older form of cosign' pull "$old:0.1.0" --key "$work/cosign.pub" --as "old-$port:0.1.0"
  "$bin/cosign" sign -y --key "$work/cosign.key" --tlog-upload=false --use-signing-config=false --allow-insecure-registry "$old@$bare" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
  "$mm" verify --remote "$old:0.1.0" --key "$work/cosign.pub" >/dev/null
  echo '{"verdict": "good"}' >"$work/review.json"
  older attest --type https://example.org/review/v1 --predicate "$work/review.json"
  refused MM0618 'the tag sha256-.*[.]att holds evidence in the older form of cosign' verify --remote "$old:0.1.0" --key "$work/cosign.pub" --require https://example.org/review/v1
  echo "mm refuses the tags of cosign's older form by name: $old"
done
# mm's key in cosign's hands.
"$bin/cosign" sign -y --key "$MM_HOME/keys/mm.key" --tlog-upload=false --use-signing-config=false --allow-insecure-registry "127.0.0.1:5460/team/m-lite@$digest" >"$work/out" 2>&1 ||
  { cat "$work/out"; exit 1; }
echo "cosign signs with mm's key file"
echo "$n of 12 cross checks passed"
