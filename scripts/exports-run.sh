#!/usr/bin/env bash
# The playbook's graph from its file to the engines of its exports: assembled twice for all targets, signed, pushed
# to a registry, pulled by target into another home, verified, and run on the golden inputs by every engine here.
#
#   MM_PYTHON=…           Python with numpy and onnxruntime (python3)
#   EXECUTORCH_PYTHON=…   one with executorch_numpy_runtime (MM_PYTHON)
#   MM_LITERT=…           wheel of ai-edge-litert (mm runtime install fetches it)
#   MM_OPENVINO=…         folder libs of the package openvino (mm runtime install fetches it)
#   CHROMEDRIVER=…        of Debian's package chromium-driver (PATH)
#   ORT_WEB=…             npm package of onnxruntime-web (npm fetches it)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${MM_PYTHON:-python3}
"$python" -c 'import numpy, onnxruntime' 2>/dev/null || { echo "skipped: MM_PYTHON has no numpy and onnxruntime"; exit 0; }
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
export CGO_ENABLED=0 MM_KEY_PASSWORD= MM_NATIVE=$work/mm-native
go build -o "$work/" ./cmd/mm ./cmd/mm-native
mm=$work/mm
graph=builds/playbook.graph.yaml
MM_HOME=$work/home "$mm" keys generate >/dev/null
targets=$(sed -n '/^exports:/,/^[a-z]/s/^  \([a-z-]*\):$/\1/p' $graph)
for home in home second; do
	MM_HOME=$work/$home "$mm" assemble $graph --out "$work/$home-dist" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
done
for target in $targets; do cmp "$work/home-dist/$target/SHA256SUMS" "$work/second-dist/$target/SHA256SUMS"; done
cmp "$work/home-dist/index.json" "$work/second-dist/index.json"
echo "mm assemble: the same index and files twice, targets" $targets
MM_HOME=$work/home "$mm" sign "$work/home-dist" >/dev/null
# The same graph with its functions for OpenVINO, under another name.
(cd builds && sed 's/^name: playbook/name: playbook-openvino/' playbook.graph.yaml >playbook-openvino.graph.yaml)
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work" builds/playbook-openvino.graph.yaml builds/playbook-openvino.lock.yaml' EXIT
functions="vision-enc vision-proj audio-enc audio-proj img-dec tts-dec"
MM_HOME=$work/home "$mm" assemble builds/playbook-openvino.graph.yaml --target laptop --export gguf=int8 --export "openvino=${functions// /,}" --out "$work/openvino-dist" --sign default >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$mm" registry serve --addr 127.0.0.1:5079 --layout "$work/registry" >"$work/registry.log" 2>&1 &
pids+=($!)
registry=127.0.0.1:5079/team
for _ in $(seq 100); do "$mm" registry ls 127.0.0.1:5079 >/dev/null 2>&1 && break || sleep 0.1; done
MM_HOME=$work/home "$mm" push "$work/home-dist" $registry/playbook >/dev/null 2>&1
MM_HOME=$work/home "$mm" push "$work/openvino-dist" $registry/playbook-openvino >/dev/null 2>&1
export MM_HOME=$work/away
"$mm" trust add "$work/home/keys/mm.pub" --name team --match "$registry/**" >/dev/null 2>&1
for target in $targets; do
	"$mm" pull $registry/playbook:0.1.0 --target "$target" >/dev/null 2>&1
	"$mm" verify "$registry/playbook:0.1.0-$target" | head -1
	"$mm" pull $registry/playbook:0.1.0 --target "$target" --out "$work/pulled/$target" >/dev/null 2>&1
	diff -r --exclude SHA256SUMS "$work/home-dist/$target" "$work/pulled/$target"
done
"$mm" pull $registry/playbook-openvino:0.1.0 >/dev/null 2>&1
"$mm" runtime install litert ${MM_LITERT:+--from "$MM_LITERT"} >/dev/null 2>"$work/log" || echo "skipped: litert: $(tail -1 "$work/log")"
"$mm" runtime install openvino ${MM_OPENVINO:+--from "$MM_OPENVINO"} >/dev/null 2>"$work/log" || echo "skipped: openvino: $(tail -1 "$work/log")"
"$python" scripts/exports_run.py "$mm" "$registry" "$work/pulled"
story=(--prompt "Once upon a time" -n 24 -t 0 --quiet)
"$mm" run $registry/playbook:0.1.0-laptop "${story[@]}" >"$work/away.txt"
MM_HOME=$work/home "$mm" run "$work/home-dist/laptop" "${story[@]}" >"$work/here.txt"
[ -s "$work/away.txt" ] && cmp "$work/away.txt" "$work/here.txt"
echo "core: $(wc -w <"$work/away.txt") equal words from the pulled build and the assembled one"
"${EXECUTORCH_PYTHON:-$python}" scripts/exports_run.py "$work/pulled/mobile-android/core-llm"
for file in core-llm/core-llm-decode.mlpackage core-llm/core-llm-prefill.mlpackage; do
	"$mm" inspect "$work/pulled/mobile-ios/$file" >/dev/null
done
echo "coreml: mm inspect reads both packages of the core; their engine is on Apple's systems"
driver=${CHROMEDRIVER:-$(command -v chromedriver)} || { echo "skipped: chromedriver is absent"; exit 0; }
runtime=(${ORT_WEB:+--runtime "$ORT_WEB"})
"$mm" export web "$registry/playbook:0.1.0-laptop" "${runtime[@]}" --out "$work/page" >/dev/null 2>"$work/log" || { echo "skipped: web: $(tail -1 "$work/log")"; exit 0; }
"$python" scripts/web.py "$driver" "$work/page"
