terraform {
  required_version = ">= 1.7"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 5.0"
    }
  }
}

# The subscription is that of ARM_SUBSCRIPTION_ID.
provider "azurerm" {
  storage_use_azuread = true
  features {}
}

data "azurerm_client_config" "current" {}

locals {
  labels  = merge(var.labels, { application = var.name })
  buckets = toset(["raw", "curated", "checkpoints"])
  # Names of accounts are unique in the world: 24 lower case letters and digits.
  short  = substr(replace(var.name, "-", ""), 0, 7)
  suffix = substr(sha256("${data.azurerm_client_config.current.subscription_id}/${var.name}"), 0, 6)
}

resource "azurerm_resource_group" "group" {
  name     = var.name
  location = var.region
  tags     = local.labels
}
