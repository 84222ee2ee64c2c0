terraform {
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80"
    }
  }
}

provider "aws" {
  region = var.region
  default_tags {
    tags = merge(var.labels, { application = var.name })
  }
}

data "aws_caller_identity" "current" {}

data "aws_availability_zones" "available" {
  state = "available"
}

locals {
  account = data.aws_caller_identity.current.account_id
  buckets = toset(["raw", "curated", "checkpoints"])
}
