output "buckets" {
  description = "Addresses of the buckets for mm: raw, curated and checkpoints."
  value       = { for name, b in aws_s3_bucket.bucket : name => "s3://${b.bucket}" }
}

output "keys" {
  description = "Keys of the buckets."
  value       = { for name, k in aws_kms_key.bucket : name => k.arn }
}

output "queue" {
  description = "Queue of data shards."
  value       = aws_sqs_queue.shards.id
}

output "registry" {
  description = "Registry of containers and artifacts."
  value       = aws_ecr_repository.registry.repository_url
}

output "manifests" {
  description = "Table of manifests."
  value       = aws_dynamodb_table.manifests.name
}

output "runner_identity" {
  description = "Identity that the runners take on with their tokens."
  value       = aws_iam_role.runner.arn
}

output "cluster" {
  description = "Cluster of the training and inference nodes."
  value       = aws_eks_cluster.nodes.name
}
