output "buckets" {
  description = "Addresses of the buckets for mm: raw, curated and checkpoints."
  value       = { for name, c in azurerm_storage_container.bucket : name => "azure://${azurerm_storage_account.bucket[name].name}/${c.name}" }
}

output "keys" {
  description = "Keys of the buckets."
  value       = { for name, k in azurerm_key_vault_key.bucket : name => k.versionless_id }
}

output "queue" {
  description = "Queue of data shards."
  value       = azurerm_servicebus_queue.shards.id
}

output "registry" {
  description = "Registry of containers and artifacts."
  value       = azurerm_container_registry.registry.login_server
}

output "manifests" {
  description = "Table of manifests."
  value       = azurerm_storage_table.manifests.name
}

output "runner_identity" {
  description = "Identity that the runners take on with their tokens."
  value       = azurerm_user_assigned_identity.runner.client_id
}

output "cluster" {
  description = "Cluster of the training and inference nodes."
  value       = azurerm_kubernetes_cluster.nodes.name
}
