#!/bin/bash
# Judges the workflows that mm ci init writes: actionlint and zizmor for GitHub Actions,
# the vendors' schemas for all three.
#
#   scripts/workflows.sh     needs python3 and Go
set -euo pipefail
cd "$(dirname "$0")/../builds/pipeline/testdata"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOBIN=$work ${GO:-go} install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet zizmor==1.32.0 check-jsonschema==0.39.0
mkdir -p "$work/repo/.github/workflows"
for kind in module build published keyless promotion; do
	cp github-$kind/*.yml "$work/repo/.github/workflows/"
	(cd "$work/repo" && git init -q . && "$work/actionlint" .github/workflows/*.yml)
	"$work/venv/bin/zizmor" --offline --persona=pedantic "$work/repo/.github/workflows"
	"$work/venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows github-$kind/*.yml
	"$work/venv/bin/check-jsonschema" --builtin-schema vendor.gitlab-ci gitlab-$kind/*.yml
	[ $kind = keyless ] || "$work/venv/bin/check-jsonschema" --regex-variant python --builtin-schema vendor.azure-pipelines azure-$kind/*.yml
done
echo "workflows of 3 providers and 5 kinds (without a key: 2 providers): no findings"
