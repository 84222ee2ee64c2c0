#!/bin/sh
# Drives the web page of mm serve in headless Chromium, by keyboard alone: screenshots at
# three widths, axe, a conversation with a picture, and stopping an answer.
#
#   scripts/page.sh [DIR]     DIR keeps packages and screenshots (default: .native/page)
#
# Needs node, npm and a Chromium (CHROMIUM names it; default: chromium).
set -eu

dir=${1:-.native/page}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ -d "$dir/node_modules" ] || npm install --silent --no-audit --no-fund --prefix "$dir" puppeteer-core@24.8.2 axe-core@4.14.1
${GO:-go} build -o "$dir/mm" ./cmd/mm
export MM_HOME="$dir/home" MM_KEY_PASSWORD=
rm -rf "$MM_HOME"
"$dir/mm" keys generate >/dev/null
"$dir/mm" assemble builds/p-lite.graph.yaml --target laptop --out "$dir/dist" --sign default >/dev/null 2>&1
echo "tester secret-key-of-the-page" >"$dir/keys"
cp scripts/page.mjs "$dir/page.mjs"
MM="$dir/mm" CHROMIUM=${CHROMIUM:-$(command -v chromium)} SHOTS="$dir" node "$dir/page.mjs"
