#!/bin/sh
# Judges the pages of mm dashboard build in headless Chromium: over HTTP, from disk and as mm
# serve --dashboard shows them, at three widths, light and dark, with axe, links, keyboard and the console.
#
#   scripts/dashboard.sh [DIR]   DIR keeps packages, results and screenshots (default: .native/dashboard)
#
# The builds are p-lite for two targets and, if .native/models has it, SmolLM2 in two
# precisions. Needs node, npm and a Chromium (CHROMIUM names it; default: chromium).
set -eu

dir=${1:-.native/dashboard}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
models=$(cd "${MM_NATIVE_DIR:-.native}" 2>/dev/null && pwd || echo none)/models
root=$(pwd)
[ -d "$dir/node_modules" ] || npm install --silent --no-audit --no-fund --prefix "$dir" puppeteer-core@24.8.2 axe-core@4.14.1
${GO:-go} build -o "$dir/mm" ./cmd/mm
export MM_HOME="$dir/home" MM_KEY_PASSWORD=
mm=$dir/mm
rm -rf "$MM_HOME" "$dir/dist" "$dir"/results-* "$dir/pages" "$dir/suite"
cd "$dir"
"$mm" keys generate >/dev/null
(cd "$root" && "$mm" assemble builds/p-lite.graph.yaml --out "$dir/dist" --sign default >/dev/null 2>&1)

# A suite: the tasks of the tests, and questions about pictures that mm draws.
mkdir suite
cp "$root"/eval/suite/testdata/tasks/colors.* "$root"/eval/suite/testdata/tasks/last.* suite
"$mm" data scenes --kinds shapes --kinds charts --split held -n 40 --seed 5 --out suite/pictures >/dev/null
node -e '
const fs = require("fs");
const out = [];
for (const line of fs.readFileSync("suite/pictures/scenes.jsonl", "utf8").trim().split("\n")) {
  const s = JSON.parse(line);
  for (const q of (s.questions || []).slice(0, 2)) out.push(JSON.stringify({ image: "pictures/" + (s.file || s.files[0]), ask: q.ask, answer: q.answer, scene: s.file || s.files[0] }));
}
fs.writeFileSync("suite/pictures.jsonl", out.slice(0, 60).join("\n") + "\n");
'
cat >suite/pictures.yaml <<'END'
task: pictures
dataset_path: pictures.jsonl
test_split: train
output_type: generate_until
doc_to_text: "{{ask}}"
doc_to_image: image
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n"], max_gen_toks: 24}
metric_list:
  - {metric: exact_match, ignore_case: true, ignore_punctuation: true}
filter_list:
  - {name: stripped, filter: [{function: remove_whitespace}]}
metadata: {cluster: scene}
END
printf '%s\n' '{"ask": "A table: #table. How many rows?", "answer": "3"}' '{"ask": "What is in the picture?", "answer": "a red circle"}' >suite/calls.jsonl
cat >suite/calls.yaml <<'END'
task: calls
dataset_path: calls.jsonl
test_split: train
output_type: generate_until
doc_to_text: "{{ask}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n"], max_gen_toks: 64}
metadata: {tools: true}
END
cat >budgets.yaml <<'END'
version: 1
latency: {tokens: 16, runs: 3, first_token_ms: {p50: 2000}, token_ms: {p50: 60}, tokens_per_second: 20}
memory: {peak: 300M}
size: {files: 14M}
quality:
  - {task: mm_colors, metric: acc, at_least: 0.35}
END
args=""
for target in laptop workstation; do
	"$mm" eval suite dist suite --target $target --out results-$target
	"$mm" eval budget dist budgets.yaml --target $target --results results-$target --out results-$target || [ $? = 5 ]
	args="$args --results results-$target"
done
for type in sbom provenance; do "$mm" attest dist --type $type >/dev/null; done
"$mm" attest dist --eval results-laptop >/dev/null
smol=$models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -f "$smol" ]; then
	[ -f smol-q2.gguf ] || "$mm" quantize "$smol" smol-q2.gguf --to Q2_K >/dev/null
	ln -sf "$smol" smol-q4.gguf
	for q in smol-q4 smol-q2; do
		"$mm" eval suite $q.gguf suite/colors.yaml suite/last.yaml --out results-$q
		args="$args --results results-$q"
	done
else
	echo "SmolLM2 is skipped: no $smol"
fi
"$mm" dashboard build --out pages $args --compat "$root/builds/compat.csv" dist
cp "$root/scripts/dashboard.mjs" .
"$mm" serve dist --dashboard $args --compat "$root/builds/compat.csv" --addr 127.0.0.1:0 >serve.out 2>serve.err &
serving=$!
trap 'kill $serving 2>/dev/null' EXIT
for _ in $(seq 300); do grep -q http serve.out && break; sleep 0.1; done
SERVED="$(head -n 1 serve.out)/dashboard" SHOTS="$dir" SITE="$dir/pages" CHROMIUM=${CHROMIUM:-$(command -v chromium)} node dashboard.mjs
echo "screenshots in $dir"
