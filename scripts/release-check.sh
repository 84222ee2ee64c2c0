#!/usr/bin/env bash
# A release is what it says: two checkouts in two folders with two caches give
# the same archives; the program from the archive is static and knows its
# version; go install by the module's path works against a proxy that holds
# this commit. Needs git and Go.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-0.2.0}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
module=$(go list -m)

for n in one two-longer; do
  git clone -q . "$work/$n"
  (cd "$work/$n" && GOCACHE="$work/cache-$n" go run ./tools/release -version "$version" -platforms "${PLATFORMS:-linux/amd64,windows/amd64}" -out "$work/out-$n" >/dev/null)
done
cmp "$work/out-one/SHA256SUMS" "$work/out-two-longer/SHA256SUMS"
echo "reproducible: $(wc -l <"$work/out-one/SHA256SUMS") archives, the same from two folders and two caches"

tar -xzf "$work/out-one/mm-$version-linux-amd64.tar.gz" -C "$work"
mm=$work/mm-$version-linux-amd64/mm
[ "$("$mm" --version)" = "mm version $version" ]
if readelf -ld "$mm" | grep -E 'INTERP|NEEDED'; then echo "the program is not static"; exit 1; fi
[ -x "$work/mm-$version-linux-amd64/mm-native" ]
[ -x "$work/mm-$version-linux-amd64/mm-queue" ]
echo "static: no interpreter, no NEEDED entry; $(stat -c %s "$mm") bytes"

# A proxy on disk (the Go module reference, "GOPROXY protocol").
at=$work/proxy/$module/@v
mkdir -p "$at"
git archive --format=zip --prefix="$module@v$version/" -o "$at/v$version.zip" HEAD -- . ':!tools'
git show HEAD:go.mod >"$at/v$version.mod"
printf '{"Version":"v%s","Time":"2026-01-01T00:00:00Z"}\n' "$version" >"$at/v$version.info"
echo "v$version" >"$at/list"
(cd "$work" && GOPROXY="file://$work/proxy,$(go env GOPROXY)" GONOSUMDB="$module" GOFLAGS=-modcacherw GOBIN="$work/bin" GOMODCACHE="$work/mod" \
  go install "$module/cmd/mm@v$version")
[ "$("$work/bin/mm" --version)" = "mm version $version" ]
echo "go install $module/cmd/mm@v$version: $("$work/bin/mm" version)"
