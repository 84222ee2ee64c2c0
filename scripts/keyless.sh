#!/bin/bash
# Runs mm as a client of sigstore-conformance (verify-bundle) and compares its verdicts with the expected ones,
# with sigstore-go's and with cosign's: over cases made by the tests of registry/sigstore, over production
# bundles in sigstore-go's module, and over a checkout of the suite. Bundles of mm sign --keyless are among the cases, and
# its requests are judged by the libraries of Fulcio, Rekor v1 and v2. Nothing uses a network but the installation of these.
#
#   scripts/keyless.sh [DIR]     DIR: test/assets/bundle-verify of a checkout of sigstore-conformance
#                                needs scripts/peers.sh (cosign); without cosign, sigstore-go alone judges
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-}
bin=${BENCH_BIN:-$PWD/.bench/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mm=${MM:-$work/mm}
[ -n "${MM:-}" ] || ${GO:-go} build -o "$mm" ./cmd/mm
judge=${JUDGE:-$work/judge}
if [ -z "${JUDGE:-}" ]; then
	mkdir "$work/src"
	cp scripts/keyless.go.txt "$work/src/main.go"
	(cd "$work/src" && printf 'module judge\n\ngo 1.26.0\n' >go.mod && export GOFLAGS=-mod=mod && go get github.com/sigstore/sigstore-go@v1.3.0 github.com/sigstore/sigstore@v1.10.11 2>/dev/null && go build -o "$judge" .)
fi
requests=${REQUESTS:-$work/requests}
if [ -z "${REQUESTS:-}" ]; then
	mkdir "$work/services"
	cp scripts/keyless-requests.go.txt "$work/services/main.go"
	(cd "$work/services" && printf 'module judge\n\ngo 1.26.0\n' >go.mod && export GOFLAGS=-mod=mod && go get github.com/sigstore/fulcio@v1.8.8 github.com/sigstore/rekor@v1.5.0 github.com/sigstore/rekor-tiles/v2@v2.3.0 github.com/sigstore/sigstore@v1.10.11 2>/dev/null && go mod tidy 2>/dev/null && go build -o "$requests" .)
fi
cases=$work/cases
MM_KEYLESS_CASES=$cases ${GO:-go} test -count=1 -run TestWriteCases ./registry/sigstore >/dev/null
"$requests" "$cases.requests"

# client is the command line of sigstore-conformance: client verify-bundle --bundle … FILE.
client() {
	shift
	timeout 30 "$mm" verify "$@"
}

# arguments sets args to those of a case.
arguments() {
	args=(--bundle "$1/bundle.sigstore.json" --trusted-root "$1/trusted_root.json")
	if [ -f "$1/key.pub" ]; then
		args+=(--key "$1/key.pub")
	else
		args+=(--certificate-identity "$(cat "$1/identity")" --certificate-oidc-issuer "$(cat "$1/issuer")")
	fi
}

# byCosign judges a case; statements are attestations.
byCosign() {
	local verb=(verify-blob)
	grep -q dsseEnvelope "$1/bundle.sigstore.json" && verb=(verify-blob-attestation --type "$(cat "$1/predicate" 2>/dev/null || echo https://example.org/review/v1)")
	if grep -q rfc3161Timestamps "$1/bundle.sigstore.json"; then # with a promise cosign reads stamps only if it must have one
		case $1 in */time-stamp-outside-*) verb+=(--use-signed-timestamps) ;; *) grep -q inclusionPromise "$1/bundle.sigstore.json" || verb+=(--use-signed-timestamps) ;; esac
	fi
	timeout 60 "$bin/cosign" "${verb[@]}" "${args[@]}" "$1/artifact" >"$work/out" 2>&1
}

# Production bundles with the identities that they state.
modules=$(cd "$(dirname "$judge")" && go env GOMODCACHE)/github.com/sigstore/sigstore-go@v1.3.0
production() { # NAME BUNDLE ROOT IDENTITY ISSUER PREDICATE DIGEST
	[ -f "$modules/$2" ] || return 0
	mkdir "$cases/$1"
	cp "$modules/$2" "$cases/$1/bundle.sigstore.json"
	cp "$modules/$3" "$cases/$1/trusted_root.json"
	printf %s "$4" >"$cases/$1/identity"
	printf %s "$5" >"$cases/$1/issuer"
	printf %s "$6" >"$cases/$1/predicate"
	printf %s "$7" >"$cases/$1/digest"
	touch "$cases/$1/artifact"
}
actions=https://token.actions.githubusercontent.com
workflow=https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main
good=examples/trusted-root-public-good.json
production production-npm-v0.1 examples/bundle-provenance.json $good $workflow $actions https://slsa.dev/provenance/v0.2 \
	sha512:76176ffa33808b54602c7c35de5c6e9a4deb96066dba6533f50ac234f4f1f4c6b3527515dc17c06fbe2860030f410eee69ea20079bd3a2c6f3dcf3b329b10751
production production-npm-v1 pkg/testing/data/bundles/sigstore.js@2.0.0-provenance.sigstore.json $good $workflow $actions https://slsa.dev/provenance/v1 \
	sha512:46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c
production production-person pkg/testing/data/bundles/dsse.sigstore.json $good brian@dehamer.com https://github.com/login/oauth x \
	sha512:bbfd372fc9beeb777fe35d05bb10c0c70a9733d366a75fed7dd18866c7391de3ee7e88ba74dd47abf3e15c845e547fcf0e5c3da80854c751554224d3a6d4e55f
production production-other-root_fail examples/bundle-provenance.json pkg/testing/data/trusted-roots/scaffolding.json $workflow $actions x \
	sha512:76176ffa33808b54602c7c35de5c6e9a4deb96066dba6533f50ac234f4f1f4c6b3527515dc17c06fbe2860030f410eee69ea20079bd3a2c6f3dcf3b329b10751
production production-other-workflow_fail examples/bundle-provenance.json $good ${workflow/main/next} $actions x \
	sha512:76176ffa33808b54602c7c35de5c6e9a4deb96066dba6533f50ac234f4f1f4c6b3527515dc17c06fbe2860030f410eee69ea20079bd3a2c6f3dcf3b329b10751
production production-other-content_fail examples/bundle-provenance.json $good $workflow $actions x \
	sha512:46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c
production production-user-name pkg/testing/data/bundles/othername.sigstore.json pkg/testing/data/trusted-roots/scaffolding.json 'foo!oidc.local' http://oidc.local:8080 x \
	sha256:bc103b4a84971ef6459b294a2b98568a2bfb72cded09d4acd1e16366a401f95b
if [ -n "$suite" ]; then
	for dir in "$suite"/*/; do
		at=$cases/suite-$(basename "$dir")
		cp -r "$dir" "$at"
		[ -f "$at/artifact" ] || cp "$suite/../a.txt" "$at/artifact"
		[ -f "$at/trusted_root.json" ] || cp "$modules/examples/trusted-root-public-good.json" "$at/trusted_root.json"
		[ -f "$at/identity" ] || printf %s https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main >"$at/identity"
		[ -f "$at/issuer" ] || printf %s https://token.actions.githubusercontent.com >"$at/issuer"
	done
fi

# Checks that mm makes and the others do not: the kind of an entry's body is the stated one, a log's key
# counted at the time of an entry without a signed entry timestamp, and a checkpoint has the size of the proof's tree.
strict=" checkpoint-of-another-size_fail kind-of-the-body-differs_fail logs-key-counted-earlier-by-stamp_fail "
"$judge" "$cases"/* >"$work/verdicts"
right=0 wrong=0 differs=0 cosigned=0
for dir in "$cases"/*; do
	name=$(basename "$dir")
	arguments "$dir"
	artifact=$dir/artifact
	[ -f "$dir/digest" ] && artifact=$(cat "$dir/digest")
	verdict=refused
	client verify-bundle "${args[@]}" "$artifact" >"$work/mm.out" 2>&1 && verdict=accepted
	want=accepted
	[ "${name%_fail}" = "$name" ] || want=refused
	if [ $verdict = $want ]; then right=$((right + 1)); else
		wrong=$((wrong + 1))
		echo "$name: mm $verdict it: $(head -1 "$work/mm.out")"
	fi
	other=$(awk -F'\t' -v n="$name" '$1 == n {print $2}' "$work/verdicts")
	if [ "$other" != $verdict ] && [ "${strict#* $name }" = "$strict" ]; then
		differs=$((differs + 1))
		echo "$name: mm $verdict it, sigstore-go $other it: $(awk -F'\t' -v n="$name" '$1 == n {print $3}' "$work/verdicts" | cut -c1-200)"
	fi
	if [ -x "$bin/cosign" ] && [ ! -f "$dir/digest" ]; then
		cosigned=$((cosigned + 1))
		other=refused
		byCosign "$dir" && other=accepted
		if [ "$other" != $verdict ] && [ "${strict#* $name }" = "$strict" ]; then
			differs=$((differs + 1))
			echo "$name: mm $verdict it, cosign $other it: $(grep -v '^WARNING' "$work/out" | head -1 | cut -c1-200)"
		fi
	fi
done
echo "$right of $((right + wrong)) verdicts of mm as expected; $differs differ from sigstore-go ($(wc -l <"$work/verdicts") cases) and cosign ($cosigned cases)"
if [ -x "$bin/cosign" ]; then # cosign verifies releases and evidence of mm sign --keyless at a registry
	PATH=$bin:$PATH ${GO:-go} test -count=1 -run 'TestScripts/keyless$' ./cmd/mm
fi
[ $wrong = 0 ] && [ $differs = 0 ]
