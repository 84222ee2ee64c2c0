#!/usr/bin/env bash
# builds/own-encoder from a stranger's file to an answer in another home: cut, import,
# assemble, sign, push, pull, verify, run.
#
#   MM_MODELS_DIR=…   what scripts/fetch-models.sh fetched (../.models); skipped without it
#   SPEECH=…          speech that mm data speech made: the build is measured on the voices held out, on N=… clips (500)
#   TRAIN=1           with SPEECH: its projector is trained anew, which takes minutes
#   STEPS=…           with TRAIN: so many steps
#   MM=…              a built mm, in place of this tree's
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
stranger=${MM_MODELS_DIR:-$root/../.models}/oww/embedding_model.onnx
speech=${SPEECH:-}
if [ ! -f "$stranger" ]; then
  echo "skipped: no $stranger (scripts/fetch-models.sh fetches it; MM_MODELS_DIR names the folder)"
  exit 0
fi
if [ -n "${TRAIN:-}" ] && [ -z "$speech" ]; then echo "TRAIN wants SPEECH (mm data speech DIR makes it)"; exit 1; fi
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT
export CGO_ENABLED=0 MM_HOME=$work/home MM_KEY_PASSWORD= DOCKER_CONFIG=$work/docker
mkdir -p "$DOCKER_CONFIG"
if [ -n "${MM:-}" ]; then cp "$MM" "$work/mm"; else go build -o "$work" ./cmd/mm; fi
PATH=$work:$PATH
say() { printf '\n== %s\n' "$*"; }
sum() { sha256sum "$1" | cut -d' ' -f1; }

# The same folder as in the tree, with the reference core beside it.
cp -R builds/own-encoder "$work/own"
printf 'modules: [., %s/modules]\n' "$root" >"$work/own/mm.yaml"
sed -i "s#\.\./\.\./modules#$root/modules#" "$work/own/"*.yaml
cd "$work/own"
rm -rf oww-speech runs
if [ -n "$speech" ]; then ln -s "$(cd "$root" && cd "$speech" && pwd)" speech; fi

say "a stranger's file, cut before its head, imported"
echo "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f  $stranger" | sha256sum -c --quiet -
./import.sh "$stranger"
mm module check oww-speech digit-proj
echo "b2364d3ecd6a4a6041b33ef4bdd302e452329e8b596b2b37bd7e5af19889966d  oww-speech/oww-speech.onnx" | sha256sum -c --quiet -

if [ -n "${TRAIN:-}" ]; then
  say "a projector is trained behind it; core and encoder stay as they are"
  before=$(sum oww-speech/oww-speech.onnx)
  mm train train.yaml --out runs/digit-proj --threads 1 ${STEPS:+--steps "$STEPS"}
  after=$(sum oww-speech/oww-speech.onnx)
  [ "$before" = "$after" ]
  echo "encoder: sha256 $before before = after"
  mm module pack runs/digit-proj/best.safetensors --part projector --dir new --name digit-proj --version 1.0.0 \
    --license Apache-2.0 --about about.md --with digit-proj/seven.wav --with digit-proj/four-two.wav
  rm -r digit-proj
  mv new digit-proj
fi

say "a build, signed, pushed"
mm keys generate >/dev/null
mm lock digits.graph.yaml >/dev/null
mm validate digits.graph.yaml .
mm assemble digits.graph.yaml --sign default
mm registry serve --layout "$work/registry" --addr 127.0.0.1:5463 >"$work/registry.log" 2>&1 &
for _ in $(seq 50); do curl -fs http://127.0.0.1:5463/v2/ >/dev/null && break; sleep 0.1; done
ref=127.0.0.1:5463/team/digits
mm push digits:1.0.0 $ref

say "pulled into another home, verified, run"
export MM_HOME=$work/away
if mm pull $ref:1.0.0 2>/dev/null; then echo "mm pulled what nobody trusts"; exit 1; fi
mm trust add "$work/home/keys/mm.pub" --name team --match "127.0.0.1:5463/team/**"
mm pull $ref:1.0.0
mm verify $ref:1.0.0
mm run $ref:1.0.0 --smoke
mm run $ref:1.0.0 --audio digit-proj/seven.wav --prompt "which digit is spoken?"
mm run $ref:1.0.0 --audio digit-proj/four-two.wav --prompt "which digits are spoken?"
mm run $ref:1.0.0 --audio digit-proj/four-two.wav --prompt "how many digits are spoken?"

if [ -n "$speech" ]; then
  say "voices it has never heard"
  mm eval sense $ref:1.0.0 --kinds audio/digits --ask 'digits/digits,digits/count' --speech speech --n "${N:-500}" --ablate
fi
people=$root/../shared/data/fsdd
if [ -d "$people" ]; then
  say "people, whom it never heard either"
  mm eval sense $ref:1.0.0 --kinds human --ask human/digits --fsdd "$people" --n 40
fi
