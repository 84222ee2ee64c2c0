mock_provider "google" {
  mock_data "google_client_config" {
    defaults = { project = "team-lab" }
  }
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}

variables {
  name           = "lab"
  region         = "europe-west3"
  training       = { machine = "a2-highgpu-8g", min = 0, max = 4 }
  inference      = { machine = "g2-standard-8", min = 1, max = 2 }
  runner_issuer  = "https://token.actions.githubusercontent.com"
  runner_subject = "repo:team/models:ref:refs/heads/main"
}

run "buckets_have_their_own_keys" {
  command = plan
  assert {
    condition     = length(google_kms_crypto_key.bucket) == 3 && alltrue([for k in google_kms_crypto_key.bucket : k.rotation_period == "7776000s"])
    error_message = "want a rotating key for each of three buckets"
  }
  assert {
    condition     = output.buckets == { for b in ["raw", "curated", "checkpoints"] : b => "gs://lab-${b}-123456789012" }
    error_message = "addresses of the buckets"
  }
  assert {
    condition     = alltrue([for b in google_storage_bucket.bucket : b.public_access_prevention == "enforced" && b.uniform_bucket_level_access])
    error_message = "want no public bucket"
  }
  assert {
    condition     = alltrue([for b in google_storage_bucket.bucket : length(b.encryption) == 1 && one(b.versioning).enabled])
    error_message = "want encryption by the bucket's key and versions"
  }
  assert {
    condition     = alltrue([for b in google_storage_bucket.bucket : one(b.lifecycle_rule[0].condition).days_since_noncurrent_time == 30])
    error_message = "want the end of old versions after the days of retention_days"
  }
}

run "bucket_key" {
  command = plan
  override_resource {
    target          = google_kms_crypto_key.bucket["raw"]
    values          = { id = "projects/team-lab/locations/europe-west3/keyRings/lab/cryptoKeys/raw" }
    override_during = plan
  }
  assert {
    condition     = one(google_storage_bucket.bucket["raw"].encryption).default_kms_key_name == output.keys["raw"]
    error_message = "want each bucket under its own key"
  }
}

run "services_are_encrypted" {
  command = plan
  override_resource {
    target          = google_kms_crypto_key.shared
    values          = { id = "shared" }
    override_during = plan
  }
  assert {
    condition     = alltrue([for t in google_pubsub_topic.shards : t.kms_key_name == "shared"])
    error_message = "want queues under the shared key"
  }
  assert {
    condition     = google_artifact_registry_repository.registry.kms_key_name == "shared" && one(google_bigquery_table.manifests.encryption_configuration).kms_key_name == "shared"
    error_message = "want the registry and the manifests under the shared key"
  }
  assert {
    condition     = one(google_container_cluster.nodes.database_encryption).key_name == "shared" && alltrue([for p in google_container_node_pool.nodes : one(p.node_config).boot_disk_kms_key == "shared"])
    error_message = "want the cluster's secrets and the disks of nodes under the shared key"
  }
}

run "network_is_private" {
  command = plan
  assert {
    condition     = google_compute_network.private.delete_default_routes_on_create && google_compute_global_forwarding_rule.services.target == "all-apis"
    error_message = "want the services by a private address and no route to the internet"
  }
  assert {
    condition     = toset(google_compute_firewall.ingress.source_ranges) == toset(["10.40.0.0/16"]) && toset(google_compute_firewall.egress.destination_ranges) == toset(["10.40.0.0/16"])
    error_message = "want traffic of the network alone"
  }
  assert {
    condition     = toset([for f in google_compute_firewall.deny : "${f.direction} ${one(f.deny).protocol}"]) == toset(["INGRESS all", "EGRESS all"])
    error_message = "want the rest denied"
  }
}

run "runners_are_one_subject" {
  command = plan
  override_resource {
    target          = google_iam_workload_identity_pool.runner
    values          = { name = "POOL" }
    override_during = plan
  }
  assert {
    condition     = google_iam_workload_identity_pool_provider.runner.attribute_condition == "assertion.sub == \"repo:team/models:ref:refs/heads/main\""
    error_message = "want tokens of one subject"
  }
  assert {
    condition     = google_service_account_iam_member.runner.member == "principal://iam.googleapis.com/POOL/subject/repo:team/models:ref:refs/heads/main"
    error_message = "want the runners' identity for one subject"
  }
  assert {
    condition     = toset(concat([for r in google_storage_bucket_iam_member.runner : r.role], [google_pubsub_topic_iam_member.runner.role, google_pubsub_subscription_iam_member.runner.role, google_bigquery_table_iam_member.runner.role])) == toset(["roles/storage.objectUser", "roles/pubsub.publisher", "roles/pubsub.subscriber", "roles/bigquery.dataEditor"])
    error_message = "want roles of data, none of the whole project"
  }
}

run "nodes_are_private" {
  command = plan
  assert {
    condition     = alltrue([for c in google_container_cluster.nodes.private_cluster_config : c.enable_private_nodes && c.enable_private_endpoint])
    error_message = "want a private cluster"
  }
  assert {
    condition     = one(google_container_node_pool.nodes["training"].autoscaling).total_max_node_count == 4 && one(google_container_node_pool.nodes["training"].node_config).machine_type == "a2-highgpu-8g"
    error_message = "want up to four training nodes"
  }
  assert {
    condition     = google_container_node_pool.nodes["training"].initial_node_count == 0
    error_message = "want no training node before there is work"
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
