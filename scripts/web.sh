#!/usr/bin/env bash
# Pages of mm export web for the builds of the repository, run by Chromium: each function on its
# golden inputs, files given by the controls, a changed model, the content security policy, and
# that equal builds have equal pages.
#
#   CHROMEDRIVER=…   chromedriver of Debian's package chromium-driver (PATH)
#   ORT_WEB=…        npm package of onnxruntime-web (npm fetches it)
set -euo pipefail
cd "$(dirname "$0")/.."
driver=${CHROMEDRIVER:-$(command -v chromedriver)} || { echo "skipped: chromedriver is absent"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 MM_HOME=$work/home MM_KEY_PASSWORD=
go build -o "$work/mm" ./cmd/mm
"$work/mm" keys generate >/dev/null
runtime=(${ORT_WEB:+--runtime "$ORT_WEB"})
pages=()
for name in p-lite playbook; do
  "$work/mm" assemble "builds/$name.graph.yaml" --target laptop --sign default >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  version=$(sed -n 's/^version: *//p' "builds/$name.graph.yaml" | head -1)
  for copy in "$name" "$name-again"; do
    "$work/mm" export web "$name:$version" --target laptop "${runtime[@]}" --out "$work/$copy" >/dev/null 2>"$work/log" || { cat "$work/log"; exit 1; }
  done
  diff -r "$work/$name" "$work/$name-again"
  (cd "$work/$name" && sha256sum --quiet -c SHA256SUMS)
  "$work/mm" sign --oms "$work/$name" --key default --signature "$work/$name.sig" >/dev/null
  "$work/mm" verify --oms "$work/$name" --signature "$work/$name.sig" >/dev/null
  pages+=("$work/$name")
done
echo "mm: equal pages of equal builds, digests and signatures are right"
python3 scripts/web.py "$driver" "${pages[@]}"
