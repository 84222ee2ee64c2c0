#!/bin/sh
# Judges the confidence of answers of p-lite about pictures and sounds of the held-out split and
# about odd ones, with SEED and N examples. SPEECH is a folder of mm data speech; sounds without it are
# tones and events. MM_PYTHON names a Python with numpy. FIT=DIR fits the confidence anew from other
# seeds, and writes DIR/image and DIR/audio.
set -eu
python=${MM_PYTHON:-python3}
seed=${SEED:-4242}
n=${N:-700}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export MM_HOME="$dir/home"
export MM_KEY_PASSWORD=calibrate
go build -o "$dir/mm" ./cmd/mm
"$dir/mm" keys generate >/dev/null
"$dir/mm" assemble builds/p-lite.graph.yaml --target laptop --out "$dir/p-lite" --sign default >/dev/null 2>&1
go build -o "$dir/recite" ./tools/recite

# ask MEDIUM SET SEED N NAME [FLAG]
ask() {
	"$dir/recite" calibrate -medium "$1" -set "$2" -seed "$3" -n "$4" -speech "${SPEECH:-}" ${6:+"$6"} "$dir/p-lite" "$dir/$1-$5"
}

for medium in image audio; do
	echo "$medium:"
	if [ -n "${FIT:-}" ]; then
		mkdir -p "$FIT/$medium"
		ask $medium train 8001 5000 train -states
		ask $medium held 7001 "$n" fit -states
		ask $medium odd 5 30 fit-odd -states
		"$python" scripts/calibrate.py fit "$dir/$medium-train" "$dir/$medium-fit" "$dir/$medium-fit-odd" "$FIT/$medium"
		continue
	fi
	ask $medium held "$seed" "$n" held
	ask $medium odd "$seed" 40 odd
	"$python" scripts/calibrate.py judge "$dir/$medium-held" "$dir/$medium-odd"
done
