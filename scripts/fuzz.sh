#!/usr/bin/env bash
# Runs every fuzz target for the given time each (default 30s), one after the
# other. A crasher stays in testdata/fuzz of its package. With a second
# argument, only targets of packages that match it.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
only=${2:-}
go list ./... | grep -E "$only" | while read -r pkg; do
  dir=$(go list -f '{{.Dir}}' "$pkg")
  grep -hoE '^func (Fuzz[A-Za-z0-9_]*)' "$dir"/*_test.go 2>/dev/null | awk '{print $2}' | sort -u | while read -r target; do
    echo "== $pkg $target ($time)"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 2x "$pkg"
  done
done
