#!/usr/bin/env bash
# The suite of every executor of skills, hostile guests with their counts, and
# warm calls. Times mean something on a machine that does nothing else.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
fetched=$(mktemp -d)
trap 'rm -rf "$out" "$fetched"' EXIT
# MicroPython comes from its npm package (MM_MICROPYTHON: its archive, if it is there already).
if [ -z "${MM_MICROPYTHON:-}" ] && command -v npm >/dev/null; then
	(cd "$fetched" && npm pack --silent --ignore-scripts @micropython/micropython-webassembly-pyscript@1.27.0 >/dev/null 2>&1)
	MM_MICROPYTHON=$(find "$fetched" -name '*.tgz')
fi
export MM_MICROPYTHON=${MM_MICROPYTHON:-}
MM_SANDBOX=1 ${GO:-go} test -count=1 -p 1 -v -run 'Suite|Corpus|Warm|GoGuest|Left|Ends' ./skills/... >"$out" 2>&1
status=$?
grep -E '^(--- |FAIL|ok|panic)|--- (FAIL|SKIP)|corpus:|warm:|skipped:' "$out"
[ $status -eq 0 ] || grep -E -A4 -- '--- FAIL' "$out"
awk '/corpus:/ { for (i = 1; i < NF; i++) if ($i == "corpus:") { held += $(i+1); all += $(i+3) } } END { printf "hostile guests held: %d of %d\n", held, all }' "$out"
exit $status
