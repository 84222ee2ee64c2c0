#!/bin/sh
# Builds llama-server of the bundled source over the libraries of the same version:
#
#   scripts/llama-server.sh NATIVE OUT      after scripts/fetch-native.sh NATIVE
#
# OUT/best/llama-server chooses the kernels of this processor, OUT/avx2/llama-server those of
# AVX2 without AVX-512. JOBS is the number of compilers, 2 by default.
set -eu

native=$(cd "${1:?usage: scripts/llama-server.sh NATIVE OUT}" && pwd)
mkdir -p "${2:?usage: scripts/llama-server.sh NATIVE OUT}"
out=$(cd "$2" && pwd)
src=$native/llama.cpp
lib=$native/lib/bins/linux-x64
mkdir -p "$out/o" "$out/best" "$out/avx2"

# one object a source, unless it is newer
compile() {
	o=$out/o/$(echo "${1#"$2"/}" | tr / _).o
	compiler='g++ -std=c++17'
	case $1 in
	*/sha1.c) compiler="$compiler -x c++" ;;
	*.c) compiler=gcc ;;
	esac
	[ "$o" -nt "$1" ] || $compiler -O2 -w -DLLAMA_SUBPROCESS -DLLAMA_SHARED -DGGML_SHARED -DGGML_BACKEND_DL -DGGML_BACKEND_SHARED \
		-I"$2" -I"$2/common" -I"$2/include" -I"$2/ggml/include" -I"$2/vendor" -I"$2/src" -I"$2/tools/mtmd" -I"$2/tools/server" -I"$2/vendor/hash" -I"${o%/*}" -c "$1" -o "$o.part" && { [ ! -f "$o.part" ] || mv "$o.part" "$o"; }
}
if [ "${3:-}" = compile ]; then # a call of xargs below
	compile "$4" "$src"
	exit
fi
cmake -DUI_SOURCE_DIR="$src/tools/ui" -DUI_BINARY_DIR="$out/o" -DLLAMA_SOURCE_DIR="$src" -DLLAMA_BUILD_NUMBER=0 \
	-DHF_ENABLED=OFF -DBUILD_UI=OFF -DLLAMA_UI_GZIP=OFF -P "$src/scripts/ui-assets.cmake" >/dev/null

find "$src/tools/server" "$src/tools/mtmd" "$src/vendor/hash" "$out/o" \( -name '*.c' -o -name '*.cpp' \) | grep -v -e /tests/ -e /debug/ -e /legacy -e mtmd-cli -e deprecation |
	sort | xargs -P "${JOBS:-2}" -n 1 "$0" "$native" "$out" compile

cp "$lib"/libllama* "$lib"/libggml.* "$lib"/libggml-base.so "$out/best/"
cp "$out/best/"lib* "$out/avx2/"
cp "$lib"/libggml-cpu-*.so "$out/best/"
cp "$lib/libggml-cpu-haswell.so" "$out/avx2/"
for dir in best avx2; do
	g++ "$out"/o/*.o -L"$out/$dir" -l:libllama-common.so -l:libllama.v0.5.0.so -l:libggml.v0.5.0.so -l:libggml-base.so -Wl,-rpath,'$ORIGIN' -pthread -o "$out/$dir/llama-server"
done
echo "ready: $out/best/llama-server, $out/avx2/llama-server"
