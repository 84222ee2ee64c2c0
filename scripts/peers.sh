#!/usr/bin/env bash
# Installs the programs that mm is compared with into DIR (default .bench/bin):
# cosign and two registry servers, as Go modules. Takes about ten minutes on a
# cold cache; what is there already is kept.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-$PWD/.bench/bin}
mkdir -p "$dir"
install() { # MODULE BINARY NAME
  [ -x "$dir/$3" ] && return 0
  echo "installing $1" >&2
  tmp=$(mktemp -d)
  GOBIN=$tmp GOFLAGS=-mod=mod CGO_ENABLED=0 go install "$1"
  mv "$tmp/$2" "$dir/$3"
  rmdir "$tmp"
}
install github.com/google/go-containerregistry/cmd/registry@v0.22.1 registry registry-ggcr
install github.com/distribution/distribution/v3/cmd/registry@v3.1.2 registry registry-distribution
install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 cosign cosign
echo "$dir"
