#!/usr/bin/env bash
# The write sweep: mm is killed at every write-class system call of assemble,
# tag, pull and gc, and every write is refused with ENOSPC, one point a run.
# After each run the store must be sound (mm fsck), and a build that was there
# before must still verify. Needs strace.
#   scripts/faults.sh [STEP]   every STEP-th point only (default 1: all)
set -euo pipefail
cd "$(dirname "$0")/.."
step=${1:-1}
command -v strace >/dev/null || { echo "skipped: no strace"; exit 0; }
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/mm" ./cmd/mm
mm=$work/mm
export MM_KEY_PASSWORD= DOCKER_CONFIG=$work/docker GOMAXPROCS=1 MM_TEST_ONE_THREAD=1
calls=openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,fchmod,fchmodat,close,copy_file_range,utimensat

echo "== in process: every call of every operation fails, kills, or loses the power"
MM_FAULTS=long go test -v -timeout 20m -run 'FaultSweep|PowerCut|FlipIndex|ProcessesTag' ./registry | grep -E 'points|states|flips|of 320|^(ok|FAIL|---)' || { echo "FAIL"; exit 1; }
echo "== the program itself"
# A home with one signed build in it, the state that must survive.
export MM_HOME=$work/base
"$mm" keys generate >/dev/null
"$mm" assemble builds/m-lite.graph.yaml --target laptop --sign default >/dev/null 2>&1
"$mm" tag m-lite:0.1.0 m-lite:before >/dev/null
"$mm" assemble builds/m-lite.graph.yaml --target phone --sign default --force >/dev/null 2>&1
"$mm" push m-lite:0.1.0 "oci:$work/away:0.1.0" >/dev/null 2>&1
"$mm" rm m-lite:0.1.0

fresh() { chmod -R u+w "$work/try" 2>/dev/null || true; rm -rf "$work/try"; cp -a "$work/base" "$work/try"; export MM_HOME=$work/try; }
# run OP: one of the operations under test.
op() {
  case $1 in
    assemble) echo assemble builds/m-lite.graph.yaml --target phone --sign default --out "$work/try/dist" ;;
    tag) echo tag m-lite:before m-lite:after ;;
    pull) echo pull "oci:$work/away:0.1.0" --as pulled:0.1.0 --insecure-skip-verify ;;
    gc) echo gc --grace 0s ;;
  esac
}
points=0 corrupt=0
sound() { # OP POINT
  points=$((points + 1))
  if ! "$mm" fsck >"$work/fsck" 2>&1 || ! "$mm" verify m-lite:before --key "$work/base/keys/mm.pub" >"$work/verify" 2>&1; then
    corrupt=$((corrupt + 1))
    echo "CORRUPT after $1 $2"; cat "$work/fsck" "$work/verify" 2>/dev/null
  fi
}
for name in assemble tag pull gc; do
  before=$points
  for call in ${calls//,/ }; do
    # How often does the operation make this call?
    fresh
    # strace counts calls a thread, so the program is kept to one; what other
    # threads do is counted here too, and bounds the loop.
    total=$(strace -f -qq -c -e "trace=$call" -o "$work/count" "$mm" $(op $name) >/dev/null 2>&1; awk -v c="$call" '$NF==c {print $4}' "$work/count")
    for ((n = 1; n <= ${total:-0}; n += step)); do
      fresh
      code=0
      { strace -f -qq -o "$work/trace" -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" "$mm" $(op $name) >/dev/null 2>&1 || code=$?; } 2>/dev/null
      [ "$code" = 137 ] || break # the thread makes no further call
      sound $name "kill at $call $n"
      case $call in write | pwrite64 | copy_file_range | mkdirat | linkat | renameat | openat)
        fresh
        code=0
        strace -f -qq -o "$work/trace" -e "trace=$call" -e "inject=$call:error=ENOSPC:when=$n" "$mm" $(op $name) >/dev/null 2>&1 || code=$?
        grep -q INJECTED "$work/trace" || continue
        sound $name "no space at $call $n (exit $code)" ;;
      esac
    done
  done
  echo "$name: $((points - before)) points"
done
echo "$corrupt corrupt stores of $points points"
[ "$corrupt" = 0 ]
