#!/usr/bin/env bash
# Runs an evaluation, a data set and a build over mm jobs while workers, the server
# and the client are killed with SIGKILL, and compares the results with those of one
# process, byte for byte. Then a study is exported for Kubernetes and its manifests
# are validated (scripts/kubernetes.sh).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
at=$(mktemp -d)
pids=()
finish() {
  for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null || true; done
  rm -rf "$at"
}
trap finish EXIT
(cd "$root" && go build -o "$at/bin/" ./cmd/mm ./cmd/mm-queue)
export MM_HOME=$at/home MM_KEY_PASSWORD= PATH=$at/bin:$PATH
export GOMAXPROCS=1
mkdir -p "$at/w/tasks" && cd "$at/w"

# The files: a small core, two tasks, six sources, a build of two targets.
mm module new core core-llm --d-model 32 --dir modules/core-llm >/dev/null
cat >two.graph.yaml <<'END'
name: two
version: 0.1.0
core:
  llm: {ref: core-llm@^0.1}
exports:
  small:
    gguf: {quant: int8}
  precise:
    gguf: {quant: fp32}
END
cat >tasks/choose.yaml <<'END'
task: choose
dataset_path: docs.jsonl
test_split: test
fewshot_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: "{{options}}"
doc_to_target: answer
num_fewshot: 1
END
cat >tasks/say.yaml <<'END'
task: say
dataset_path: docs.jsonl
test_split: test
output_type: generate_until
doc_to_text: q
doc_to_target: "{{options[answer]}}"
generation_kwargs: {until: ["."], max_gen_toks: 24}
END
python3 - <<'END'
import hashlib, json
with open("tasks/docs.jsonl", "w") as f:
    for i in range(120):
        f.write(json.dumps({"q": f"what is number {i} and the colour of it?", "options": ["blue", "green"], "answer": i % 2}) + "\n")
lines = ["version: 1", "name: m", "sources:"]
for s in range(6):
    rows = (json.dumps({"text": f"document {i % 3000} of the mill and the boat number {i % 13}, mail a{i}@example.org or call"}) + "\n" for i in range(s * 400, s * 400 + 8000))
    data = "".join(rows).encode()
    open(f"s{s}.jsonl", "wb").write(data)
    lines.append(f"  - {{id: s{s}, path: s{s}.jsonl, sha256: {hashlib.sha256(data).hexdigest()}, license: MIT}}")
lines += ["dedup: {near: {threshold: 0.8}}", "pii: {action: scrub}", "splits: {held_out: 0.1}"]
open("m.data.yaml", "w").write("\n".join(lines) + "\n")
END
cat >eval.jobs.yaml <<'END'
version: 1
name: night
attempts: 100
eval: {model: modules/core-llm, tasks: [tasks], shards: 8}
END
printf 'version: 1\nname: corpus\nattempts: 100\ndata: {manifest: m.data.yaml, parts: 6}\n' >data.jobs.yaml
printf 'version: 1\nname: two\nattempts: 100\nfiles: [modules]\nbuild: {graph: two.graph.yaml}\n' >build.jobs.yaml

# What one process writes.
mm eval suite modules/core-llm tasks --no-cache --out "$at/local/eval" >/dev/null 2>&1
mm data build m.data.yaml --out "$at/local/data" >/dev/null
MM_HOME=$at/alone mm assemble two.graph.yaml --out "$at/local/build" >/dev/null 2>&1

port=$((20000 + RANDOM % 20000))
url=nats://127.0.0.1:$port
echo "secret-$RANDOM$RANDOM" >"$at/token" && chmod 600 "$at/token"
queue=(--server "$url" --token "$at/token")
serve() {
  mm-queue -dir "$at/server" -listen "127.0.0.1:$port" -token "$at/token" >/dev/null 2>&1 &
  server=$!
  pids+=("$server")
}
workers=(0 0 0)
work() { # N
  MM_HOME=$at/home-$1 mm jobs work "${queue[@]}" --dir "$at/worker-$1" >/dev/null 2>&1 &
  workers[$1]=$!
  pids+=("${workers[$1]}")
}
serve
for i in 0 1 2; do work "$i"; done

for kind in eval data build; do
  kills=0 servers=0 clients=0 begin=$(date +%s.%N)
  while :; do
    mm jobs run "$kind.jobs.yaml" --out "$at/farm/$kind" "${queue[@]}" >"$at/log" 2>&1 &
    client=$!
    for _ in $(seq 40); do
      sleep 0.$((1 + RANDOM % 9))
      kill -0 "$client" 2>/dev/null || break
      i=$((RANDOM % 3))
      kill -9 "${workers[$i]}" && wait "${workers[$i]}" 2>/dev/null || true
      work "$i"
      kills=$((kills + 1))
      if ((kills % 7 == 3)); then
        kill -9 "$server" && wait "$server" 2>/dev/null || true
        serve
        servers=$((servers + 1))
      fi
      if ((kills % 5 == 4 && clients < 20)); then
        kill -9 "$client"
        clients=$((clients + 1))
        break
      fi
      ((kills < 120)) || sleep 30 # let it end
    done
    code=0
    wait "$client" 2>/dev/null || code=$?
    [ "$code" = 137 ] && continue
    [ "$code" = 0 ] && break
    cat "$at/log"
    exit 1
  done
  diff -r -x .mm "$at/local/$kind" "$at/farm/$kind"
  echo "$kind: $kills workers, $servers servers and $clients clients killed, the same bytes after $(echo "$(date +%s.%N) - $begin" | bc | cut -c1-6) s"
done
mm jobs status "${queue[@]}"
