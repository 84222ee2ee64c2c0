resource "google_compute_network" "private" {
  name                            = var.name
  auto_create_subnetworks         = false
  delete_default_routes_on_create = true
}

resource "google_compute_subnetwork" "private" {
  # checkov:skip=CKV_GCP_76:the network has no IPv6
  name                     = "${var.name}-nodes"
  network                  = google_compute_network.private.id
  region                   = var.region
  ip_cidr_range            = cidrsubnet(var.network_cidr, 4, 0)
  private_ip_google_access = true
  secondary_ip_range {
    range_name    = "pods"
    ip_cidr_range = cidrsubnet(var.network_cidr, 2, 1)
  }
  secondary_ip_range {
    range_name    = "services"
    ip_cidr_range = cidrsubnet(var.network_cidr, 4, 1)
  }
  log_config {
    aggregation_interval = "INTERVAL_10_MIN"
    flow_sampling        = 0.1
    metadata             = "INCLUDE_ALL_METADATA"
  }
}

# The nodes have no way to the internet: Google's services by one private address.
resource "google_compute_global_address" "services" {
  name         = "${var.name}-services"
  network      = google_compute_network.private.id
  purpose      = "PRIVATE_SERVICE_CONNECT"
  address_type = "INTERNAL"
  address      = cidrhost(cidrsubnet(var.network_cidr, 4, 15), 2)
}

resource "google_compute_global_forwarding_rule" "services" {
  name                  = substr(replace("psc${var.name}", "-", ""), 0, 20)
  network               = google_compute_network.private.id
  target                = "all-apis"
  ip_address            = google_compute_global_address.services.id
  load_balancing_scheme = ""
}

locals {
  zones = { api = "googleapis.com.", registry = "pkg.dev.", system = "gcr.io." }
}

resource "google_dns_managed_zone" "services" {
  for_each   = local.zones
  name       = "${var.name}-${each.key}"
  dns_name   = each.value
  visibility = "private"
  private_visibility_config {
    networks {
      network_url = google_compute_network.private.id
    }
  }
}

resource "google_dns_record_set" "services" {
  for_each     = { for p in setproduct(keys(local.zones), ["", "*."]) : "${p[1]}${local.zones[p[0]]}" => p[0] }
  managed_zone = google_dns_managed_zone.services[each.value].name
  name         = each.key
  type         = "A"
  ttl          = 300
  rrdatas      = [google_compute_global_address.services.address]
}

resource "google_compute_firewall" "deny" {
  for_each           = toset(["INGRESS", "EGRESS"])
  name               = "${var.name}-deny-${lower(each.key)}"
  network            = google_compute_network.private.id
  direction          = each.key
  priority           = 65000
  source_ranges      = each.key == "INGRESS" ? ["0.0.0.0/0"] : null
  destination_ranges = each.key == "EGRESS" ? ["0.0.0.0/0"] : null
  deny {
    protocol = "all"
  }
}

resource "google_compute_firewall" "ingress" {
  name          = "${var.name}-https"
  network       = google_compute_network.private.id
  direction     = "INGRESS"
  source_ranges = [var.network_cidr]
  allow {
    protocol = "tcp"
    ports    = ["443"]
  }
}

# Nodes and pods reach each other; ingress between them is the cluster's rules.
resource "google_compute_firewall" "egress" {
  name               = "${var.name}-network"
  network            = google_compute_network.private.id
  direction          = "EGRESS"
  destination_ranges = [var.network_cidr]
  allow {
    protocol = "all"
  }
}

# Runners sign in with the token of their platform; no key of an account exists.
resource "google_iam_workload_identity_pool" "runner" {
  workload_identity_pool_id = "${var.name}-runners"
}

resource "google_iam_workload_identity_pool_provider" "runner" {
  workload_identity_pool_id          = google_iam_workload_identity_pool.runner.workload_identity_pool_id
  workload_identity_pool_provider_id = "runner"
  attribute_mapping                  = { "google.subject" = "assertion.sub" }
  attribute_condition                = "assertion.sub == ${jsonencode(var.runner_subject)}"
  oidc {
    issuer_uri = var.runner_issuer
  }
}

resource "google_service_account" "account" {
  for_each   = toset(["runner", "node"])
  account_id = "${var.name}-${each.key}"
}

resource "google_service_account_iam_member" "runner" {
  service_account_id = google_service_account.account["runner"].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principal://iam.googleapis.com/${google_iam_workload_identity_pool.runner.name}/subject/${var.runner_subject}"
}

locals {
  runner = "serviceAccount:${google_service_account.account["runner"].email}"
}

resource "google_storage_bucket_iam_member" "runner" {
  for_each = local.buckets
  bucket   = google_storage_bucket.bucket[each.key].name
  role     = "roles/storage.objectUser"
  member   = local.runner
}

resource "google_pubsub_topic_iam_member" "runner" {
  topic  = google_pubsub_topic.shards["shards"].id
  role   = "roles/pubsub.publisher"
  member = local.runner
}

resource "google_pubsub_subscription_iam_member" "runner" {
  subscription = google_pubsub_subscription.shards.id
  role         = "roles/pubsub.subscriber"
  member       = local.runner
}

resource "google_bigquery_table_iam_member" "runner" {
  dataset_id = google_bigquery_table.manifests.dataset_id
  table_id   = google_bigquery_table.manifests.table_id
  role       = "roles/bigquery.dataEditor"
  member     = local.runner
}

resource "google_artifact_registry_repository_iam_member" "reader" {
  repository = google_artifact_registry_repository.registry.id
  role       = "roles/artifactregistry.reader"
  member     = "serviceAccount:${google_service_account.account["node"].email}"
}
