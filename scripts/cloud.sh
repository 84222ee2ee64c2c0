#!/usr/bin/env bash
# The Terraform modules of catalog/cloud under real providers (TF_PLUGINS: folders
# of providers, separated by colons; scripts/cloud-providers.py builds google and
# azurerm), their tests, planted faults, and checkov (CHECKOV). What is absent is
# skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v terraform >/dev/null || { echo "skipped: terraform is not in PATH"; exit 0; }
IFS=: read -ra folders <<<"${TF_PLUGINS:-/opt/tf-plugins:.native/tf-plugins}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/rc"
export TF_CLI_CONFIG_FILE=$work/rc
terraform fmt -check -recursive catalog/cloud
found=0

# open CLOUD PROVIDER: validates and tests a module; false without its provider.
open() {
  local dirs=() f
  for f in "${folders[@]}"; do
    [ -d "$f/registry.terraform.io/hashicorp/$2" ] && dirs+=(-plugin-dir "$(realpath "$f")")
  done
  [ ${#dirs[@]} -gt 0 ] || { echo "skipped: no provider $2 in ${folders[*]}"; return 1; }
  cloud=$1
  cp -r "catalog/cloud/$cloud" "$work/$cloud"
  terraform -chdir="$work/$cloud" init "${dirs[@]}" -input=false >/dev/null
  echo "$cloud: $(ls "${dirs[1]}/registry.terraform.io/hashicorp/$2" | sed "s/^/provider $2 /")"
  terraform -chdir="$work/$cloud" validate -no-color
  terraform -chdir="$work/$cloud" test -no-color >"$work/log" || { cat "$work/log"; exit 1; }
  tail -1 "$work/log"; echo
}
# fault FILE OLD NEW [validate]: the module's tests, or its validation, must refuse
# NEW instead of OLD.
fault() {
  cp "$work/$cloud/$1" "$work/kept"
  sed -i "s|$2|$3|" "$work/$cloud/$1"
  cmp -s "$work/$cloud/$1" "$work/kept" && { echo "$cloud: the fault $3 was not planted"; exit 1; }
  terraform -chdir="$work/$cloud" "${4:-test}" -no-color >"$work/log" 2>&1 && { echo "$cloud: the fault $3 was not found"; exit 1; }
  [ "${4:-test}" = validate ] || grep -q 'Test assertion failed\|Unknown condition value' "$work/log" || { cat "$work/log"; exit 1; }
  cp "$work/kept" "$work/$cloud/$1"
  found=$((found + 1))
  echo "$cloud: ${4:-test} refuses: ${3:-without $2}"
}

if open aws aws; then
  fault storage.tf 'bucket   = "${var.name}' 'buckett  = "${var.name}' validate
  fault storage.tf 'enable_key_rotation     = true' 'enable_key_rotation     = "often"' validate
  fault storage.tf 'rule {' 'rules {' validate
  fault outputs.tf 'aws_sqs_queue.shards.id' 'aws_sqs_queue.shards.idd' validate
  fault access.tf 'resource "aws_vpc" ' 'resource "aws_vpcc" ' validate
  fault nodes.tf 'var.training' 'var.trainings' validate
  fault storage.tf 'block_public_policy     = true' 'block_public_policy     = false'
  fault storage.tf 'kms_master_key_id = aws_kms_key.bucket.*' ''
  fault access.tf 'cidr_blocks = .var.network_cidr.' 'cidr_blocks = ["0.0.0.0/0"]'
  fault access.tf ':sub" = var.runner_subject' ':sub" = "*"'
  fault access.tf 'Resource = aws_sqs_queue.shards.arn' 'Resource = "*"'
  fault nodes.tf 'endpoint_public_access  = false' 'endpoint_public_access  = true'
fi
if open gcp google; then
  fault storage.tf 'public_access_prevention ' 'public_access_preventionn ' validate
  fault storage.tf 'rotation_period = "7776000s"' 'rotation_period = "often"' validate
  fault storage.tf 'versioning {' 'versions {' validate
  fault outputs.tf 'google_service_account.account..runner...email' 'google_service_account.account["runner"].mail' validate
  fault access.tf 'resource "google_compute_network" ' 'resource "google_compute_networks" ' validate
  fault nodes.tf 'var.training' 'var.trainings' validate
  fault storage.tf 'public_access_prevention    = "enforced"' 'public_access_prevention    = "inherited"'
  fault storage.tf 'default_kms_key_name = google_kms_crypto_key.bucket.each.key..id' 'default_kms_key_name = google_kms_crypto_key.shared.id'
  fault storage.tf 'kms_key_name  = google_kms_crypto_key.shared.id' ''
  fault access.tf 'source_ranges = .var.network_cidr.' 'source_ranges = ["0.0.0.0/0"]'
  fault access.tf 'subject/${var.runner_subject}' '*'
  fault access.tf 'attribute_condition ' '#'
  fault access.tf 'roles/storage.objectUser' 'roles/owner'
  fault nodes.tf 'enable_private_endpoint = true' 'enable_private_endpoint = false'
fi
if open azure azurerm; then
  fault storage.tf 'shared_access_key_enabled ' 'shared_access_keys_enabled ' validate
  fault storage.tf 'key_size     = 3072' 'key_size     = "large"' validate
  fault storage.tf 'blob_properties {' 'blobs {' validate
  fault outputs.tf 'azurerm_servicebus_queue.shards.id' 'azurerm_servicebus_queue.shards.idd' validate
  fault access.tf 'resource "azurerm_subnet" ' 'resource "azurerm_subnets" ' validate
  fault nodes.tf 'var.training' 'var.trainings' validate
  fault storage.tf 'min_tls_version                   = "TLS1_2"' 'min_tls_version                   = "TLS9"' validate
  fault storage.tf 'allow_nested_items_to_be_public   = false' 'allow_nested_items_to_be_public   = true'
  fault storage.tf 'container_access_type = "private"' 'container_access_type = "blob"'
  fault storage.tf 'azurerm_key_vault_key.bucket.each.key..versionless_id' 'azurerm_key_vault_key.shared.versionless_id'
  fault access.tf 'source_address_prefix      = var.network_cidr' 'source_address_prefix      = "*"'
  fault access.tf '= var.runner_subject' '= "*"'
  fault access.tf 'Storage Blob Data Contributor' 'Owner'
  fault nodes.tf 'private_cluster_enabled             = true' 'private_cluster_enabled             = false'
fi
echo "found $found planted faults"
if command -v "${CHECKOV:-checkov}" >/dev/null; then
  "${CHECKOV:-checkov}" -d catalog/cloud --framework terraform --skip-download --compact --quiet
else
  echo "skipped: checkov is not installed"
fi
