#!/bin/bash
# Compares the figures of one evaluation as the model hub's client reads them: model-index of
# README.md, .eval_results and CycloneDX hold the value of the one signed statement, and a
# digit that is changed by hand in any of them is found.
#
#   MM_PYTHON=PYTHON scripts/cards.sh     PYTHON has huggingface_hub (scripts/hub.sh makes one)
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mm=$work/mm
${GO:-go} build -o "$mm" ./cmd/mm
export MM_HOME=$work/home MM_KEY_PASSWORD= SOURCE_DATE_EPOCH=1700000000
"$mm" keys generate >/dev/null
"$mm" assemble builds/p-lite.graph.yaml --target laptop --out "$work/dist" --sign default >/dev/null 2>&1
sed 's/^metadata:/metadata:\n  eval_results: {id: team\/colors, task_id: default, metric: "acc_norm,none"}/' eval/suite/testdata/tasks/colors.yaml >"$work/colors.yaml"
cp eval/suite/testdata/tasks/colors.jsonl "$work/"
"$mm" eval suite "$work/dist" "$work/colors.yaml" --out "$work/results" >/dev/null 2>&1
"$mm" attest "$work/dist" --eval "$work/results" >/dev/null
"$mm" card "$work/dist" --out "$work/card" >/dev/null
"$mm" sbom "$work/dist" >"$work/card/sbom.cdx.json"
"$mm" verify "$work/dist" --json >"$work/verified.json"
"$mm" card "$work/dist" --check "$work/card"
"$MM_PYTHON" - "$work" <<'PY'
import glob, json, sys, yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
work = sys.argv[1]
signed = {}
for e in json.load(open(f"{work}/verified.json"))["evidence"]:
    for s in e["statements"]:
        for v in s.get("evaluations", []):
            for t in v["tasks"]:
                for f in t["figures"]:
                    signed[f["metric"] + "," + f["filter"]] = f["value"]
card = ModelCard(open(f"{work}/card/README.md").read())
index = {r.metric_name: r.metric_value for r in card.data.eval_results}
bill = json.load(open(f"{work}/card/sbom.cdx.json"))["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
bill = {m["type"]: float(m["value"]) for m in bill}
entries = [e for f in glob.glob(f"{work}/card/.eval_results/*.yaml") for e in parse_eval_result_entries(yaml.safe_load(open(f)))]
again = ModelCard(str(card)).data.to_dict()
ok = signed == index == bill and len(signed) == 2 and [(e.dataset_id, e.task_id, e.value) for e in entries] == [("team/colors", "default", signed["acc_norm,none"])]
print("signed", signed, "model-index", index, "CycloneDX", bill, ".eval_results", [(e.dataset_id, e.task_id, e.value) for e in entries])
if not ok or again != card.data.to_dict():
    sys.exit("the figures differ, or the card changes in a round trip")
PY
for file in README.md .eval_results/team--colors--default.yaml sbom.cdx.json mm-card.json; do
	cp -r "$work/card" "$work/changed"
	sed 's/\(value"*: "*0\.[0-9]*\)\([0-9]\)/\11\2/' "$work/card/$file" >"$work/changed/$file"
	rc=0
	"$mm" card "$work/dist" --check "$work/changed" 2>"$work/out" || rc=$?
	grep -q "changed/$file: error MM0334" "$work/out" && [ $rc = 5 ] || { echo "$file: exit code $rc"; cat "$work/out"; exit 1; }
	rm -r "$work/changed"
	echo "a digit added by hand to $file: exit code 5"
done
