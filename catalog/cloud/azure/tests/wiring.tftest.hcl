mock_provider "azurerm" {
  mock_data "azurerm_client_config" {
    defaults = {
      subscription_id = "00000000-0000-0000-0000-000000000001"
      tenant_id       = "00000000-0000-0000-0000-000000000002"
      object_id       = "00000000-0000-0000-0000-000000000003"
    }
  }
}

variables {
  name           = "lab"
  region         = "germanywestcentral"
  training       = { machine = "Standard_ND96isr_H100_v5", min = 0, max = 4 }
  inference      = { machine = "Standard_NC24ads_A100_v4", min = 1, max = 2 }
  runner_issuer  = "https://token.actions.githubusercontent.com"
  runner_subject = "repo:team/models:ref:refs/heads/main"
}

run "buckets_have_their_own_keys" {
  command = plan
  override_resource {
    target          = azurerm_key_vault_key.bucket["raw"]
    values          = { versionless_id = "https://lab-keys.vault.azure.net/keys/raw" }
    override_during = plan
  }
  assert {
    condition     = length(azurerm_key_vault_key.bucket) == 3 && alltrue([for k in azurerm_key_vault_key.bucket : one(one(k.rotation_policy).automatic).time_after_creation == "P90D"])
    error_message = "want a rotating key for each of three buckets"
  }
  assert {
    condition     = one(azurerm_storage_account.bucket["raw"].customer_managed_key).key_vault_key_id == output.keys["raw"] && alltrue([for a in azurerm_storage_account.bucket : length(a.customer_managed_key) == 1])
    error_message = "want each bucket under its own key"
  }
  assert {
    condition     = { for b, url in output.buckets : b => replace(url, "/[0-9a-f]{6}[/]/", "-/") } == { for b in ["raw", "curated", "checkpoints"] : b => "azure://lab${b}-/${b}" }
    error_message = "addresses of the buckets"
  }
  assert {
    condition     = alltrue([for a in azurerm_storage_account.bucket : !a.public_network_access_enabled && !a.allow_nested_items_to_be_public && !a.shared_access_key_enabled && one(a.network_rules).default_action == "Deny"])
    error_message = "want no public bucket and no key of an account"
  }
  assert {
    condition     = alltrue([for c in azurerm_storage_container.bucket : c.container_access_type == "private"])
    error_message = "want private containers"
  }
  assert {
    condition     = one(azurerm_storage_account.bucket["checkpoints"].blob_properties).versioning_enabled && azurerm_storage_account.bucket["raw"].is_hns_enabled
    error_message = "want versions of checkpoints, and a lake for raw data"
  }
  assert {
    condition     = alltrue([for a in azurerm_storage_account.bucket : one(one(a.blob_properties).delete_retention_policy).days == 30])
    error_message = "want deleted files for the days of retention_days"
  }
}

run "services_are_encrypted" {
  command = plan
  override_resource {
    target          = azurerm_key_vault_key.shared
    values          = { id = "https://lab-keys.vault.azure.net/keys/shared/1", versionless_id = "https://lab-keys.vault.azure.net/keys/shared" }
    override_during = plan
  }
  assert {
    condition     = startswith(one(azurerm_servicebus_namespace.queues.customer_managed_key).key_vault_key_id, azurerm_key_vault_key.shared.versionless_id)
    error_message = "want the queues under the shared key"
  }
  assert {
    condition     = alltrue([for id in [one(azurerm_container_registry.registry.encryption).key_vault_key_id, azurerm_disk_encryption_set.disks.key_vault_key_id] : id == azurerm_key_vault_key.shared.versionless_id])
    error_message = "want the registry and the disks of nodes under the shared key"
  }
}

run "network_is_private" {
  command = plan
  assert {
    condition     = toset(keys(azurerm_private_endpoint.services)) == toset(["raw", "curated", "checkpoints", "raw-lake", "curated-lake", "keys", "catalog", "queues", "registry"])
    error_message = "want a private endpoint of each service"
  }
  assert {
    condition     = alltrue([for open in [azurerm_key_vault.keys.public_network_access_enabled, azurerm_servicebus_namespace.queues.public_network_access_enabled, azurerm_container_registry.registry.public_network_access_enabled] : !open])
    error_message = "want no public service"
  }
  assert {
    condition     = toset([for r in azurerm_network_security_group.private.security_rule : "${r.direction} ${r.source_address_prefix} ${r.priority}" if r.access == "Allow"]) == toset(["Inbound 10.40.0.0/16 100", "Outbound 10.40.0.0/16 100"])
    error_message = "want traffic of the network alone"
  }
  assert {
    condition     = toset([for r in azurerm_network_security_group.private.security_rule : "${r.direction} ${r.source_address_prefix} ${r.priority}" if r.access == "Deny"]) == toset(["Inbound * 4096", "Outbound * 4096"])
    error_message = "want the rest denied"
  }
  assert {
    condition     = toset(keys(azurerm_subnet_network_security_group_association.private)) == toset(["nodes", "endpoints"])
    error_message = "want the rules on each subnet"
  }
}

run "runners_are_one_subject" {
  command = plan
  assert {
    condition     = azurerm_federated_identity_credential.runner.subject == "repo:team/models:ref:refs/heads/main" && azurerm_federated_identity_credential.runner.issuer == "https://token.actions.githubusercontent.com"
    error_message = "want tokens of one subject"
  }
  assert {
    condition     = length(setintersection([for r in concat(values(azurerm_role_assignment.buckets), values(azurerm_role_assignment.queue), values(azurerm_role_assignment.nodes), [azurerm_role_assignment.manifests]) : r.role_definition_name], ["Owner", "Contributor", "User Access Administrator"])) == 0
    error_message = "want roles of data, none of the whole subscription"
  }
}

run "nodes_are_private" {
  command = plan
  assert {
    condition     = azurerm_kubernetes_cluster.nodes.private_cluster_enabled && azurerm_kubernetes_cluster.nodes.local_account_disabled && one(azurerm_kubernetes_cluster.nodes.network_profile).outbound_type == "none"
    error_message = "want a private cluster without a way to the internet"
  }
  assert {
    condition     = azurerm_kubernetes_cluster.nodes.oidc_issuer_enabled && azurerm_kubernetes_cluster.nodes.workload_identity_enabled
    error_message = "want identities of workloads"
  }
  assert {
    condition     = azurerm_kubernetes_cluster_node_pool.nodes["training"].max_count == 4 && azurerm_kubernetes_cluster_node_pool.nodes["training"].min_count == 0
    error_message = "want up to four training nodes, none before there is work"
  }
}

run "names_are_checked" {
  command = plan
  variables {
    name           = "Bad_Name"
    network_cidr   = "10.40.0.0/20"
    retention_days = 0
  }
  expect_failures = [var.name, var.network_cidr, var.retention_days]
}
