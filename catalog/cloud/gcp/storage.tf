resource "google_kms_key_ring" "keys" {
  name     = var.name
  location = var.region
}

# One key for each bucket: access to a bucket is access to its key.
resource "google_kms_crypto_key" "bucket" {
  for_each        = local.buckets
  name            = each.key
  key_ring        = google_kms_key_ring.keys.id
  rotation_period = "7776000s"
  lifecycle {
    prevent_destroy = true
  }
}

resource "google_kms_crypto_key" "shared" {
  name            = "shared"
  key_ring        = google_kms_key_ring.keys.id
  rotation_period = "7776000s"
  lifecycle {
    prevent_destroy = true
  }
}

resource "google_kms_crypto_key_iam_member" "bucket" {
  for_each      = local.buckets
  crypto_key_id = google_kms_crypto_key.bucket[each.key].id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${data.google_storage_project_service_account.storage.email_address}"
}

resource "google_kms_crypto_key_iam_member" "shared" {
  for_each      = local.agents
  crypto_key_id = google_kms_crypto_key.shared.id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${each.value}"
}

resource "google_storage_bucket" "bucket" {
  # checkov:skip=CKV_GCP_62:access is logged by Cloud Audit Logs of the project
  for_each                    = local.buckets
  name                        = "${var.name}-${each.key}-${local.number}"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  encryption {
    default_kms_key_name = google_kms_crypto_key.bucket[each.key].id
  }
  versioning {
    enabled = true
  }
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = var.retention_days
      with_state                 = "ARCHIVED"
    }
  }
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 7
    }
  }
  depends_on = [google_kms_crypto_key_iam_member.bucket]
}

resource "google_bigquery_dataset" "catalog" {
  dataset_id = replace(var.name, "-", "_")
  location   = var.region
  default_encryption_configuration {
    kms_key_name = google_kms_crypto_key.shared.id
  }
  depends_on = [google_kms_crypto_key_iam_member.shared]
}

resource "google_bigquery_table" "manifests" {
  dataset_id          = google_bigquery_dataset.catalog.dataset_id
  table_id            = "manifests"
  deletion_protection = true
  encryption_configuration {
    kms_key_name = google_kms_crypto_key.shared.id
  }
  schema = jsonencode([
    { name = "name", type = "STRING", mode = "REQUIRED" },
    { name = "version", type = "STRING", mode = "REQUIRED" },
    { name = "manifest", type = "JSON", mode = "NULLABLE" },
  ])
}

resource "google_pubsub_topic" "shards" {
  for_each     = toset(["shards", "shards-failed"])
  name         = "${var.name}-${each.key}"
  kms_key_name = google_kms_crypto_key.shared.id
  message_storage_policy {
    allowed_persistence_regions = [var.region]
  }
  depends_on = [google_kms_crypto_key_iam_member.shared]
}

resource "google_pubsub_subscription" "shards" {
  name                 = "${var.name}-shards"
  topic                = google_pubsub_topic.shards["shards"].id
  ack_deadline_seconds = 600
  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.shards["shards-failed"].id
    max_delivery_attempts = 5
  }
  expiration_policy {
    ttl = ""
  }
}

# Without a subscription the messages of a topic are discarded.
resource "google_pubsub_subscription" "failed" {
  name  = "${var.name}-shards-failed"
  topic = google_pubsub_topic.shards["shards-failed"].id
  expiration_policy {
    ttl = ""
  }
}

resource "google_pubsub_topic_iam_member" "failed" {
  topic  = google_pubsub_topic.shards["shards-failed"].id
  role   = "roles/pubsub.publisher"
  member = "serviceAccount:${local.agents.pubsub}"
}

resource "google_pubsub_subscription_iam_member" "failed" {
  subscription = google_pubsub_subscription.shards.id
  role         = "roles/pubsub.subscriber"
  member       = "serviceAccount:${local.agents.pubsub}"
}

resource "google_artifact_registry_repository" "registry" {
  repository_id = var.name
  location      = var.region
  format        = "DOCKER"
  kms_key_name  = google_kms_crypto_key.shared.id
  docker_config {
    immutable_tags = true
  }
  depends_on = [google_kms_crypto_key_iam_member.shared]
}
