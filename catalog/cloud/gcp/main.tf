terraform {
  required_version = ">= 1.7"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.0"
    }
  }
}

# The project is that of the credentials, or GOOGLE_PROJECT.
provider "google" {
  region         = var.region
  default_labels = merge(var.labels, { application = var.name })
}

data "google_client_config" "current" {}

data "google_project" "current" {}

data "google_storage_project_service_account" "storage" {}

data "google_bigquery_default_service_account" "bigquery" {}

locals {
  project = data.google_client_config.current.project
  number  = data.google_project.current.number
  buckets = toset(["raw", "curated", "checkpoints"])
  # The agents of the services that encrypt with the shared key.
  agents = {
    pubsub   = "service-${local.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
    registry = "service-${local.number}@gcp-sa-artifactregistry.iam.gserviceaccount.com"
    cluster  = "service-${local.number}@container-engine-robot.iam.gserviceaccount.com"
    disks    = "service-${local.number}@compute-system.iam.gserviceaccount.com"
    tables   = data.google_bigquery_default_service_account.bigquery.email
  }
}
