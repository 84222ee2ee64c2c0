resource "azurerm_virtual_network" "private" {
  name                = var.name
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  address_space       = [var.network_cidr]
  tags                = local.labels
}

resource "azurerm_subnet" "private" {
  # checkov:skip=CKV2_AZURE_31:the group below is of both, which checkov does not follow; tests/wiring.tftest.hcl asserts it
  for_each                          = { nodes = cidrsubnet(var.network_cidr, 2, 1), endpoints = cidrsubnet(var.network_cidr, 8, 0) }
  name                              = each.key
  resource_group_name               = azurerm_resource_group.group.name
  virtual_network_name              = azurerm_virtual_network.private.name
  address_prefixes                  = [each.value]
  default_outbound_access_enabled   = false
  private_endpoint_network_policies = "Enabled"
}

# The nodes have no way to the internet: storage and services by endpoints.
resource "azurerm_network_security_group" "private" {
  name                = var.name
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  tags                = local.labels
  dynamic "security_rule" {
    for_each = { Inbound = 100, Outbound = 100 }
    content {
      name                       = "network-${lower(security_rule.key)}"
      priority                   = security_rule.value
      direction                  = security_rule.key
      access                     = "Allow"
      protocol                   = "*"
      source_port_range          = "*"
      destination_port_range     = "*"
      source_address_prefix      = var.network_cidr
      destination_address_prefix = var.network_cidr
    }
  }
  dynamic "security_rule" {
    for_each = { Inbound = 4096, Outbound = 4096 }
    content {
      name                       = "deny-${lower(security_rule.key)}"
      priority                   = security_rule.value
      direction                  = security_rule.key
      access                     = "Deny"
      protocol                   = "*"
      source_port_range          = "*"
      destination_port_range     = "*"
      source_address_prefix      = "*"
      destination_address_prefix = "*"
    }
  }
}

resource "azurerm_subnet_network_security_group_association" "private" {
  for_each                  = azurerm_subnet.private
  subnet_id                 = each.value.id
  network_security_group_id = azurerm_network_security_group.private.id
}

locals {
  # Endpoint: the resource, the part of it, the zone of its names.
  endpoints = merge(
    { for b in local.buckets : b => { id = azurerm_storage_account.bucket[b].id, part = "blob", zone = "privatelink.blob.core.windows.net" } },
    { for b in ["raw", "curated"] : "${b}-lake" => { id = azurerm_storage_account.bucket[b].id, part = "dfs", zone = "privatelink.dfs.core.windows.net" } },
    {
      keys     = { id = azurerm_key_vault.keys.id, part = "vault", zone = "privatelink.vaultcore.azure.net" }
      catalog  = { id = azurerm_storage_account.bucket["checkpoints"].id, part = "table", zone = "privatelink.table.core.windows.net" }
      queues   = { id = azurerm_servicebus_namespace.queues.id, part = "namespace", zone = "privatelink.servicebus.windows.net" }
      registry = { id = azurerm_container_registry.registry.id, part = "registry", zone = "privatelink.azurecr.io" }
    },
  )
  zones = toset([for e in values(local.endpoints) : e.zone])
}

resource "azurerm_private_dns_zone" "services" {
  for_each            = local.zones
  name                = each.key
  resource_group_name = azurerm_resource_group.group.name
  tags                = local.labels
}

resource "azurerm_private_dns_zone_virtual_network_link" "services" {
  for_each            = local.zones
  name                = var.name
  private_dns_zone_id = azurerm_private_dns_zone.services[each.key].id
  virtual_network_id  = azurerm_virtual_network.private.id
}

resource "azurerm_private_endpoint" "services" {
  for_each            = local.endpoints
  name                = "${var.name}-${each.key}"
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  subnet_id           = azurerm_subnet.private["endpoints"].id
  tags                = local.labels
  private_service_connection {
    name                           = each.key
    private_connection_resource_id = each.value.id
    subresource_names              = [each.value.part]
    is_manual_connection           = false
  }
  private_dns_zone_group {
    name                 = each.key
    private_dns_zone_ids = [azurerm_private_dns_zone.services[each.value.zone].id]
  }
}

# Runners sign in with the token of their platform; no key of an account exists.
resource "azurerm_user_assigned_identity" "runner" {
  name                = "${var.name}-runner"
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  tags                = local.labels
}

resource "azurerm_federated_identity_credential" "runner" {
  name                      = "runner"
  user_assigned_identity_id = azurerm_user_assigned_identity.runner.id
  issuer                    = var.runner_issuer
  subject                   = var.runner_subject
  audience                  = ["api://AzureADTokenExchange"]
}

resource "azurerm_role_assignment" "buckets" {
  for_each             = local.buckets
  scope                = azurerm_storage_account.bucket[each.key].id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_user_assigned_identity.runner.principal_id
}

resource "azurerm_role_assignment" "manifests" {
  scope                = azurerm_storage_table.manifests.id
  role_definition_name = "Storage Table Data Contributor"
  principal_id         = azurerm_user_assigned_identity.runner.principal_id
}

resource "azurerm_role_assignment" "queue" {
  for_each             = toset(["Azure Service Bus Data Sender", "Azure Service Bus Data Receiver"])
  scope                = azurerm_servicebus_queue.shards.id
  role_definition_name = each.key
  principal_id         = azurerm_user_assigned_identity.runner.principal_id
}
