#!/usr/bin/env bash
# The way of a run on an emulated phone: through Android's own adb where the
# machine has it (Debian's package adb), and through a double of its server
# everywhere; then each fault of a phone with its words and mm's exit code.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
command -v adb > /dev/null || echo "skipped: what needs adb; the double of its server is tried alone"
status=0
go test -count=1 -v -run 'Lane|Real|Run|Resume|Pretend|Push|Unreachable|Trust|TestDevice' ./device/... ./cmd/mm > "$log" 2>&1 || status=$?
grep -E '^(---|ok|FAIL)|^ +--- (FAIL|SKIP)|skipped:|device_test.go:[0-9]+: (exit|mm) ' "$log" | sed 's/^ *device_test.go:[0-9]*: /  /'
awk '/--- PASS: TestDeviceFaults\// { n++ } END { printf "%d faults told apart\n", n }' "$log"
exit $status
