output "buckets" {
  description = "Addresses of the buckets for mm: raw, curated and checkpoints."
  value       = { for name, b in google_storage_bucket.bucket : name => "gs://${b.name}" }
}

output "keys" {
  description = "Keys of the buckets."
  value       = { for name, k in google_kms_crypto_key.bucket : name => k.id }
}

output "queue" {
  description = "Queue of data shards."
  value       = google_pubsub_topic.shards["shards"].id
}

output "registry" {
  description = "Registry of containers and artifacts."
  value       = "${var.region}-docker.pkg.dev/${local.project}/${google_artifact_registry_repository.registry.repository_id}"
}

output "manifests" {
  description = "Table of manifests."
  value       = google_bigquery_table.manifests.id
}

output "runner_identity" {
  description = "Identity that the runners take on with their tokens."
  value       = google_service_account.account["runner"].email
}

output "cluster" {
  description = "Cluster of the training and inference nodes."
  value       = google_container_cluster.nodes.name
}
