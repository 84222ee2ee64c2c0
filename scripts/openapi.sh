#!/bin/sh
# Runs schemathesis against the document and the server of mm serve:
#   scripts/openapi.sh [EXAMPLES]
# EXAMPLES bounds the requests of each path, 100 by default. SCHEMATHESIS names the program
# (pip install schemathesis).
set -eu
cd "$(dirname "$0")/.."
tool=${SCHEMATHESIS:-schemathesis}
command -v "$tool" >/dev/null || { echo "SKIP  schemathesis is not installed"; exit 0; }
dir=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/mm" ./cmd/mm
MM_HOME=$dir/home "$dir/mm" serve catalog/core-llm --addr 127.0.0.1:0 --max-tokens 4 --jobs eval/suite/testdata --quiet >"$dir/url" &
server=$!
for i in $(seq 100); do
	[ -s "$dir/url" ] && break
	sleep 0.1
done
url=$(cat "$dir/url")
cp scripts/openapi.toml "$dir/schemathesis.toml"
cd "$dir"
"$tool" run "$url/openapi.json" --checks all --max-examples "${1:-100}" --seed 1 --workers 2 --continue-on-failure
