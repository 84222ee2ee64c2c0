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
# C becomes WebAssembly by the clang and wasi-libc of a Python package (MM_ZIG: its zig, if it is there already).
if [ -z "${MM_ZIG:-}" ] && command -v pip >/dev/null; then
	pip install --quiet --no-deps --only-binary=:all: --target "$fetched/zig" ziglang==0.13.0 >/dev/null 2>&1
	[ -x "$fetched/zig/ziglang/zig" ] && MM_ZIG=$fetched/zig/ziglang/zig
fi
export MM_ZIG=${MM_ZIG:-} ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$fetched/cache}
MM_SANDBOX=1 ${GO:-go} test -count=1 -p 1 -timeout 40m -v -run 'Suite|Corpus|Hostile|Warm|GoGuest|Left|Ends|Pin|Layers|Write' ./skills/... >"$out" 2>&1
status=$?
grep -E '^(--- |FAIL|ok|panic)|--- (FAIL|SKIP)|corpus:|warm:|skipped:|after its deadline' "$out"
[ $status -eq 0 ] || grep -E -A4 -- '--- FAIL' "$out"
awk '/corpus:/ { for (i = 1; i < NF; i++) { if ($i == "corpus:") { held += $(i+1); all += $(i+3) } if ($i == "return" && $(i+2) == "after") { t = $(i+1); s = t + 0; if (t ~ /µs$/) s /= 1000; else if (t !~ /ms$/) s *= 1000; if (s > worst) worst = s } } }
	END { printf "hostile guests held: %d of %d; the latest returned %.1f ms after its deadline\n", held, all, worst }' "$out"
exit $status
