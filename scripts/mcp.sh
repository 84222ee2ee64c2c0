#!/usr/bin/env bash
# A client that nobody here wrote, npm's @modelcontextprotocol/sdk, lists the
# tools of mm mcp and calls them, over both transports. Needs Node and npm;
# skipped without. MM: a program instead of the one built here.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in node npm; do
	command -v "$program" >/dev/null || { echo "skipped: $program is not in PATH"; exit 0; }
done
tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$tmp"' EXIT
mm=${MM:-$tmp/mm}
[ -n "${MM:-}" ] || CGO_ENABLED=0 ${GO:-go} build -o "$mm" ./cmd/mm

npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tmp/client" @modelcontextprotocol/sdk@1.32.2 || { echo "skipped: npm gives no @modelcontextprotocol/sdk"; exit 0; }
cp scripts/mcp-client.mjs "$tmp/client/"

root=$tmp/root
mkdir -p "$root/modules/adder"
cp -r catalog/core-llm catalog/router catalog/sandbox "$root/modules/"
printf 'modules: [modules]\n' >"$root/mm.yaml"
cat >"$root/b.graph.yaml" <<'YAML'
name: b
version: 1.0.0
core:
  llm: {ref: core-llm@^3}
skills:
  - {ref: adder@^1}
runtime:
  router: {ref: router@^1}
  sandbox: {ref: sandbox@^0.3}
exports:
  laptop:
    gguf: {quant: int8, kv: int8}
YAML
cat >"$root/modules/adder/module.yaml" <<'YAML'
name: adder
version: 1.0.0
type: skill
abi: mm-abi-1.0
license: MIT
description: Adds two whole numbers.
inputs: [{name: a, type: int}, {name: b, type: int}]
outputs: [{name: sum, type: int}]
runtime:
  starlark: run.star
  limits: {timeout_ms: 2000}
YAML
printf 'def run(args):\n  return {"sum": args["a"] + args["b"]}\n' >"$root/modules/adder/run.star"

export MM_HOME=$tmp/home
node "$tmp/client/mcp-client.mjs" stdio "$mm" mcp b.graph.yaml --root "$root" --threads 2
export MM_MCP_TOKEN=0123456789abcdef0123456789abcdef
"$mm" mcp b.graph.yaml --root "$root" --threads 2 --http 127.0.0.1:0 >"$tmp/url" &
server=$!
for _ in $(seq 600); do [ -s "$tmp/url" ] && break; kill -0 "$server" || exit 1; sleep 0.1; done
node "$tmp/client/mcp-client.mjs" http "$(cat "$tmp/url")"
kill "$server"; wait "$server" || true
server=
