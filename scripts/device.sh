#!/usr/bin/env bash
# The way of a run on an emulated phone: through Android's own adb where the
# machine has it (Debian's package adb), and through a double of its server
# everywhere; then each fault of a phone with its words and mm's exit code. With
# MM_QNN_LIB, the folder of Qualcomm's libraries, the phone runs the runner that is
# pushed to it on a context of the vision encoder; without it that is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log" "$log.npu"' EXIT
command -v adb > /dev/null || echo "skipped: what needs adb; the double of its server is tried alone"
status=0
go test -count=1 -v -run 'Lane|Real|Run|Resume|Pretend|Push|Unreachable|Trust|TestDevice' ./lab/device/... ./cmd/mm > "$log" 2>&1 || status=$?
grep -E '^(---|ok|FAIL)|^ +--- (FAIL|SKIP)|skipped:|device_test.go:[0-9]+: (exit|mm) ' "$log" | sed 's/^ *device_test.go:[0-9]*: /  /'
echo "the runner itself, with Qualcomm's libraries in emulation:"
go test -count=1 -v -timeout 30m -run 'TestNPU$/device' ./cmd/mm > "$log.npu" 2>&1 || status=$?
grep -E '^ *(---|ok|FAIL)|skipped:|npu_.*_test.go' "$log.npu" || cat "$log.npu"
awk '/--- PASS: TestDeviceFaults\// { n++ } END { printf "%d faults told apart\n", n }' "$log"
exit $status
