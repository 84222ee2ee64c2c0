#!/bin/bash
# Measures mm serve and llama-server with the same requests, alternating.
#
#   scripts/bench-serve.sh LLAMA_SERVER MODEL.gguf TEXT [CLIENTS] [RUNS]
#
# TEXT is a file whose words are the prompts: about 470 tokens each, 128 tokens of
# answer, greedy. Distinct prompts first, then shared ones. llama-server divides its
# keys and values among the clients, which is faster there than sharing them.  MM names
# another mm.
set -euo pipefail
llama=$1 model=$2 text=$3 clients=${4:-1,4,16} runs=${5:-3}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
go=${GO:-go}
if [ -n "${MM:-}" ]; then cp "$MM" "$work/mm"; else $go build -o "$work/mm" ./cmd/mm; fi
$go build -o "$work/latency" ./tools/latency
export MM_HOME=$work/home
port=18473
# await URL: until the server has loaded the model.
await() {
	for _ in $(seq 600); do
		curl -fs "$1" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "no answer from $1" >&2
	exit 1
}
stop() {
	kill "$server" && wait "$server" 2>/dev/null || true
	server=
}
"$work/mm" doctor 2>/dev/null | grep -i -m1 'cpu\|avx' || true
echo "| server, prompts | clients | done | tok/s | first token p50 / p95 ms | gap p50 / p95 / max ms | cached | MiB | CPU s |"
echo "|---|---|---|---|---|---|---|---|---|"
for run in $(seq "$runs"); do
	for kind in distinct shared; do
		flags=
		[ "$kind" = shared ] && flags=-shared
		for n in ${clients//,/ }; do
			slots=$((n < 4 ? 4 : n))
			"$work/mm" serve "$model" --addr 127.0.0.1:$port --parallel "$slots" >"$work/log" 2>&1 &
			server=$!
			await http://127.0.0.1:$port/ready
			"$work/latency" -url http://127.0.0.1:$port/v1 -label "mm, $kind" -pid $server -clients "$n" -asks 2 -prompt 330 -text "$text" $flags
			stop
			"$llama" -m "$model" --port $port -np $slots -c $((slots * 1024)) -t 2 --no-webui >"$work/log" 2>&1 &
			server=$!
			await http://127.0.0.1:$port/health
			"$work/latency" -url http://127.0.0.1:$port/v1 -label "llama-server, $kind" -pid $server -clients "$n" -asks 2 -prompt 330 -text "$text" $flags
			stop
		done
	done
done
