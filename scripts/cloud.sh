#!/usr/bin/env bash
# The Terraform modules of catalog/cloud under the real provider (TF_PLUGINS: a
# folder of providers), their tests, planted faults, and checkov (CHECKOV). What
# is absent is skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v terraform >/dev/null || { echo "skipped: terraform is not in PATH"; exit 0; }
plugins=${TF_PLUGINS:-/opt/tf-plugins}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/rc"
export TF_CLI_CONFIG_FILE=$work/rc
terraform fmt -check -recursive catalog/cloud
[ -d "$plugins/registry.terraform.io/hashicorp/aws" ] || { echo "skipped: no provider aws in $plugins"; exit 0; }
cp -r catalog/cloud/aws "$work/aws"
terraform -chdir="$work/aws" init -plugin-dir "$plugins" -input=false >/dev/null
terraform -chdir="$work/aws" validate -no-color
terraform -chdir="$work/aws" test -no-color | tail -1
# fault FILE OLD NEW: validate must refuse the module with NEW instead of OLD.
fault() {
  cp "$work/aws/$1" "$work/kept"
  sed -i "s|$2|$3|" "$work/aws/$1"
  cmp -s "$work/aws/$1" "$work/kept" && { echo "the fault $3 was not planted"; exit 1; }
  terraform -chdir="$work/aws" validate -no-color >/dev/null 2>&1 && { echo "the fault $3 was not found"; exit 1; }
  cp "$work/kept" "$work/aws/$1"
  echo "found the fault: $3"
}
fault storage.tf 'bucket   = "${var.name}' 'buckett  = "${var.name}'
fault storage.tf 'enable_key_rotation     = true' 'enable_key_rotation     = "often"'
fault storage.tf 'rule {' 'rules {'
fault outputs.tf 'aws_sqs_queue.shards.id' 'aws_sqs_queue.shards.idd'
fault access.tf 'resource "aws_vpc" ' 'resource "aws_vpcc" '
fault nodes.tf 'var.training' 'var.trainings'
if command -v "${CHECKOV:-checkov}" >/dev/null; then
  "${CHECKOV:-checkov}" -d catalog/cloud --framework terraform --skip-download --compact --quiet
else
  echo "skipped: checkov is not installed"
fi
