resource "azurerm_user_assigned_identity" "nodes" {
  for_each            = toset(["cluster", "node"])
  name                = "${var.name}-${each.key}"
  resource_group_name = azurerm_resource_group.group.name
  location            = var.region
  tags                = local.labels
}

resource "azurerm_role_assignment" "nodes" {
  for_each = {
    network = { scope = azurerm_virtual_network.private.id, role = "Network Contributor", who = "cluster" }
    disks   = { scope = azurerm_disk_encryption_set.disks.id, role = "Reader", who = "cluster" }
    assign  = { scope = azurerm_user_assigned_identity.nodes["node"].id, role = "Managed Identity Operator", who = "cluster" }
    images  = { scope = azurerm_container_registry.registry.id, role = "AcrPull", who = "node" }
  }
  scope                = each.value.scope
  role_definition_name = each.value.role
  principal_id         = azurerm_user_assigned_identity.nodes[each.value.who].principal_id
}

resource "azurerm_disk_encryption_set" "disks" {
  name                      = "${var.name}-disks"
  resource_group_name       = azurerm_resource_group.group.name
  location                  = var.region
  key_vault_key_id          = azurerm_key_vault_key.shared.versionless_id
  auto_key_rotation_enabled = true
  tags                      = local.labels
  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.services.id]
  }
  depends_on = [azurerm_role_assignment.services]
}

resource "azurerm_kubernetes_cluster" "nodes" {
  # checkov:skip=CKV_AZURE_116:signatures of images are verified by mm, whose policy is the team's
  # checkov:skip=CKV_AZURE_4:logs leave by the subscription's diagnostic settings; the network has no way to a workspace
  # checkov:skip=CKV_AZURE_171:automatic_upgrade_channel is of this resource under the name of provider 5
  # checkov:skip=CKV_AZURE_227:host_encryption_enabled is of this resource under the name of provider 5
  # checkov:skip=CKV_AZURE_226:machines of training have no cache disk for ephemeral systems
  # checkov:skip=CKV_AZURE_232:the pool of the system is the first one; work has its own pools
  name                                = var.name
  resource_group_name                 = azurerm_resource_group.group.name
  location                            = var.region
  dns_prefix                          = var.name
  sku_tier                            = "Standard"
  private_cluster_enabled             = true
  private_cluster_public_fqdn_enabled = false
  local_account_disabled              = true
  role_based_access_control_enabled   = true
  oidc_issuer_enabled                 = true
  workload_identity_enabled           = true
  run_command_enabled                 = false
  azure_policy_enabled                = true
  automatic_upgrade_channel           = "stable"
  node_os_upgrade_channel             = "NodeImage"
  disk_encryption_set_id              = azurerm_disk_encryption_set.disks.id
  tags                                = local.labels
  azure_active_directory_role_based_access_control {
    azure_rbac_enabled = true
    tenant_id          = data.azurerm_client_config.current.tenant_id
  }
  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.nodes["cluster"].id]
  }
  kubelet_identity {
    client_id                 = azurerm_user_assigned_identity.nodes["node"].client_id
    object_id                 = azurerm_user_assigned_identity.nodes["node"].principal_id
    user_assigned_identity_id = azurerm_user_assigned_identity.nodes["node"].id
  }
  default_node_pool {
    name                         = "system"
    vm_size                      = "Standard_D4s_v5"
    node_count                   = 3
    max_pods                     = 60
    zones                        = ["1", "2", "3"]
    vnet_subnet_id               = azurerm_subnet.private["nodes"].id
    only_critical_addons_enabled = true
    host_encryption_enabled      = true
    os_disk_type                 = "Managed"
  }
  network_profile {
    network_plugin      = "azure"
    network_plugin_mode = "overlay"
    network_policy      = "cilium"
    network_data_plane  = "cilium"
    outbound_type       = "none"
    service_cidr        = "172.20.0.0/16"
    dns_service_ip      = "172.20.0.10"
    pod_cidr            = "172.24.0.0/14"
  }
  node_provisioning_profile {
    mode = "Manual"
  }
  bootstrap_profile {
    artifact_source       = "Cache"
    container_registry_id = azurerm_container_registry.registry.id
  }
  key_vault_secrets_provider {
    secret_rotation_enabled = true
  }
  depends_on = [azurerm_role_assignment.nodes]
}

resource "azurerm_kubernetes_cluster_node_pool" "nodes" {
  # checkov:skip=CKV_AZURE_227:host_encryption_enabled is of this resource under the name of provider 5
  # checkov:skip=CKV_AZURE_168:a machine of training holds few large pods
  for_each                = { training = var.training, inference = var.inference }
  name                    = each.key
  kubernetes_cluster_id   = azurerm_kubernetes_cluster.nodes.id
  vm_size                 = each.value.machine
  vnet_subnet_id          = azurerm_subnet.private["nodes"].id
  auto_scaling_enabled    = true
  min_count               = each.value.min
  max_count               = max(each.value.max, 1)
  host_encryption_enabled = true
  node_public_ip_enabled  = false
  node_labels             = { "mm/role" = each.key }
  tags                    = local.labels
}
