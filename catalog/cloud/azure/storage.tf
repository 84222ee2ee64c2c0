resource "azurerm_key_vault" "keys" {
  name                          = "${local.short}-keys-${local.suffix}"
  resource_group_name           = azurerm_resource_group.group.name
  location                      = var.region
  tenant_id                     = data.azurerm_client_config.current.tenant_id
  sku_name                      = "premium"
  rbac_authorization_enabled    = true
  purge_protection_enabled      = true
  soft_delete_retention_days    = 90
  public_network_access_enabled = false
  tags                          = local.labels
  network_acls {
    default_action = "Deny"
    bypass         = "AzureServices"
  }
}

# One key for each bucket: access to a bucket is access to its key.
resource "azurerm_key_vault_key" "bucket" {
  # checkov:skip=CKV_AZURE_40:keys rotate; expired ones would lock what they encrypted
  for_each     = local.buckets
  name         = each.key
  key_vault_id = azurerm_key_vault.keys.id
  key_type     = "RSA-HSM"
  key_size     = 3072
  key_opts     = ["wrapKey", "unwrapKey"]
  rotation_policy {
    automatic {
      time_after_creation = "P90D"
    }
  }
  depends_on = [azurerm_role_assignment.keys]
}

resource "azurerm_key_vault_key" "shared" {
  # checkov:skip=CKV_AZURE_40:keys rotate; expired ones would lock what they encrypted
  name         = "shared"
  key_vault_id = azurerm_key_vault.keys.id
  key_type     = "RSA-HSM"
  key_size     = 3072
  key_opts     = ["wrapKey", "unwrapKey"]
  rotation_policy {
    automatic {
      time_after_creation = "P90D"
    }
  }
  depends_on = [azurerm_role_assignment.keys]
}

# Who applies this module makes keys; the services that encrypt wrap with them.
resource "azurerm_role_assignment" "keys" {
  scope                = azurerm_key_vault.keys.id
  role_definition_name = "Key Vault Crypto Officer"
  principal_id         = data.azurerm_client_config.current.object_id
}

resource "azurerm_user_assigned_identity" "services" {
  name                = "${var.name}-services"
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  tags                = local.labels
}

resource "azurerm_role_assignment" "services" {
  scope                = azurerm_key_vault.keys.id
  role_definition_name = "Key Vault Crypto Service Encryption User"
  principal_id         = azurerm_user_assigned_identity.services.principal_id
}

# Raw and curated data are a lake (ADLS Gen2), which has no versions: there,
# deleted files are kept. Checkpoints have versions.
resource "azurerm_storage_account" "bucket" {
  # checkov:skip=CKV_AZURE_206:copies in other regions are a decision on cost and law, not a default
  # checkov:skip=CKV_AZURE_33:the account has no queue
  # checkov:skip=CKV2_AZURE_1:customer_managed_key is of this resource
  # checkov:skip=CKV2_AZURE_33:the endpoints below are one for each bucket, which checkov does not follow; tests/wiring.tftest.hcl asserts them
  for_each                          = local.buckets
  name                              = "${local.short}${each.key}${local.suffix}"
  resource_group_name               = azurerm_resource_group.group.name
  location                          = var.region
  account_tier                      = "Standard"
  account_replication_type          = "ZRS"
  account_kind                      = "StorageV2"
  is_hns_enabled                    = each.key != "checkpoints"
  min_tls_version                   = "TLS1_2"
  https_traffic_only_enabled        = true
  shared_access_key_enabled         = false
  default_to_oauth_authentication   = true
  local_user_enabled                = false
  public_network_access_enabled     = false
  allow_nested_items_to_be_public   = false
  cross_tenant_replication_enabled  = false
  infrastructure_encryption_enabled = true
  table_encryption_key_type         = each.key == "checkpoints" ? "Account" : "Service"
  tags                              = local.labels
  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.services.id]
  }
  customer_managed_key {
    key_vault_key_id          = azurerm_key_vault_key.bucket[each.key].versionless_id
    user_assigned_identity_id = azurerm_user_assigned_identity.services.id
  }
  blob_properties {
    versioning_enabled = each.key == "checkpoints"
    delete_retention_policy {
      days = var.retention_days
    }
    container_delete_retention_policy {
      days = var.retention_days
    }
  }
  network_rules {
    default_action = "Deny"
    bypass         = ["AzureServices"]
  }
  sas_policy {
    expiration_period = "00.01:00:00"
    expiration_action = "Block"
  }
  depends_on = [azurerm_role_assignment.services]
}

resource "azurerm_storage_container" "bucket" {
  # checkov:skip=CKV2_AZURE_21:reads are logged by the subscription's diagnostic settings
  for_each              = local.buckets
  name                  = each.key
  storage_account_id    = azurerm_storage_account.bucket[each.key].id
  container_access_type = "private"
}

resource "azurerm_storage_management_policy" "bucket" {
  storage_account_id = azurerm_storage_account.bucket["checkpoints"].id
  rule {
    name    = "old"
    enabled = true
    filters {
      blob_types = ["blockBlob"]
    }
    actions {
      version {
        delete_after_days_since_creation = var.retention_days
      }
    }
  }
}

resource "azurerm_storage_table" "manifests" {
  # checkov:skip=CKV2_AZURE_20:reads are logged by the subscription's diagnostic settings
  name               = "manifests"
  storage_account_id = azurerm_storage_account.bucket["checkpoints"].id
}

# Own keys and private endpoints of queues need the premium tier.
resource "azurerm_servicebus_namespace" "queues" {
  name                          = "${var.name}-queues-${local.suffix}"
  resource_group_name           = azurerm_resource_group.group.name
  location                      = var.region
  sku                           = "Premium"
  capacity                      = 1
  premium_messaging_partitions  = 1
  local_auth_enabled            = false
  public_network_access_enabled = false
  minimum_tls_version           = "1.2"
  tags                          = local.labels
  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.services.id]
  }
  customer_managed_key {
    key_vault_key_id                  = azurerm_key_vault_key.shared.id
    identity_id                       = azurerm_user_assigned_identity.services.id
    infrastructure_encryption_enabled = true
  }
  depends_on = [azurerm_role_assignment.services]
}

resource "azurerm_servicebus_queue" "shards" {
  name                                 = "shards"
  namespace_id                         = azurerm_servicebus_namespace.queues.id
  lock_duration                        = "PT5M"
  max_delivery_count                   = 5
  dead_lettering_on_message_expiration = true
}

resource "azurerm_container_registry" "registry" {
  # checkov:skip=CKV_AZURE_165:copies in other regions are a decision on cost and law, not a default
  # checkov:skip=CKV_AZURE_164:signatures of artifacts are Sigstore bundles, which mm verifies
  # checkov:skip=CKV_AZURE_166:a registry in quarantine serves no image until a scanner releases it; no scanner is part of this module
  # checkov:skip=CKV_AZURE_167:images without a tag are signatures and parts of builds
  name                          = "${replace(var.name, "-", "")}${local.suffix}"
  resource_group_name           = azurerm_resource_group.group.name
  location                      = var.region
  sku                           = "Premium"
  admin_enabled                 = false
  anonymous_pull_enabled        = false
  public_network_access_enabled = false
  data_endpoint_enabled         = true
  zone_redundancy_enabled       = true
  tags                          = local.labels
  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.services.id]
  }
  encryption {
    key_vault_key_id   = azurerm_key_vault_key.shared.versionless_id
    identity_client_id = azurerm_user_assigned_identity.services.client_id
  }
  depends_on = [azurerm_role_assignment.services]
}
