# What the agents of nodes need, and no more.
resource "google_project_iam_member" "node" {
  project = local.project
  role    = "roles/container.defaultNodeServiceAccount"
  member  = "serviceAccount:${google_service_account.account["node"].email}"
}

resource "google_container_cluster" "nodes" {
  # checkov:skip=CKV_GCP_65:groups of an organization are outside this module
  # checkov:skip=CKV_GCP_66:signatures of images are verified by mm, whose policy is the team's
  # checkov:skip=CKV_GCP_12:the advanced datapath enforces network policies without the add-on
  name                        = var.name
  location                    = var.region
  network                     = google_compute_network.private.id
  subnetwork                  = google_compute_subnetwork.private.id
  remove_default_node_pool    = true
  initial_node_count          = 1
  datapath_provider           = "ADVANCED_DATAPATH"
  networking_mode             = "VPC_NATIVE"
  enable_intranode_visibility = true
  deletion_protection         = true
  resource_labels             = merge(var.labels, { application = var.name })
  private_cluster_config {
    enable_private_nodes    = true
    enable_private_endpoint = true
    master_ipv4_cidr_block  = cidrsubnet(var.network_cidr, 12, 3584)
  }
  master_authorized_networks_config {
    cidr_blocks {
      cidr_block = var.network_cidr
    }
  }
  master_auth {
    client_certificate_config {
      issue_client_certificate = false
    }
  }
  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }
  workload_identity_config {
    workload_pool = "${local.project}.svc.id.goog"
  }
  database_encryption {
    state    = "ENCRYPTED"
    key_name = google_kms_crypto_key.shared.id
  }
  release_channel {
    channel = "STABLE"
  }
  node_config {
    service_account = google_service_account.account["node"].email
    workload_metadata_config {
      mode = "GKE_METADATA"
    }
    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }
  }
  depends_on = [google_kms_crypto_key_iam_member.shared]
}

resource "google_container_node_pool" "nodes" {
  for_each           = { training = var.training, inference = var.inference }
  name               = each.key
  cluster            = google_container_cluster.nodes.id
  initial_node_count = each.value.min
  autoscaling {
    total_min_node_count = each.value.min
    total_max_node_count = max(each.value.max, 1)
  }
  management {
    auto_repair  = true
    auto_upgrade = true
  }
  node_config {
    image_type        = "COS_CONTAINERD"
    machine_type      = each.value.machine
    service_account   = google_service_account.account["node"].email
    oauth_scopes      = ["https://www.googleapis.com/auth/cloud-platform"]
    boot_disk_kms_key = google_kms_crypto_key.shared.id
    labels            = { "mm/role" = each.key }
    workload_metadata_config {
      mode = "GKE_METADATA"
    }
    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }
  }
  lifecycle {
    ignore_changes = [initial_node_count]
  }
}
