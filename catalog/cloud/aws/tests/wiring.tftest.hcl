mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_availability_zones" {
    defaults = { names = ["a", "b"] }
  }
}

variables {
  name           = "lab"
  region         = "eu-central-1"
  training       = { machine = "p4d.24xlarge", min = 0, max = 4 }
  inference      = { machine = "g6.xlarge", min = 1, max = 2 }
  runner_issuer  = "https://token.actions.githubusercontent.com"
  runner_subject = "repo:team/models:ref:refs/heads/main"
}

run "buckets_have_their_own_keys" {
  command = plan
  assert {
    condition     = length(aws_kms_key.bucket) == 3 && alltrue([for k in aws_kms_key.bucket : k.enable_key_rotation])
    error_message = "want a rotating key for each of three buckets"
  }
  assert {
    condition     = output.buckets["checkpoints"] == "s3://lab-checkpoints-123456789012"
    error_message = "address of the checkpoints"
  }
  assert {
    condition     = alltrue([for b in aws_s3_bucket_public_access_block.bucket : b.block_public_policy && b.restrict_public_buckets])
    error_message = "want no public bucket"
  }
  assert {
    condition     = length(aws_s3_bucket_versioning.bucket) == 3 && alltrue([for b in aws_s3_bucket_versioning.bucket : b.versioning_configuration[0].status == "Enabled"])
    error_message = "want versions in each bucket"
  }
  assert {
    condition     = length(aws_s3_bucket_lifecycle_configuration.bucket) == 3 && length(aws_s3_bucket_public_access_block.bucket) == 3
    error_message = "want a lifecycle and an access block for each bucket"
  }
  assert {
    condition     = alltrue([for e in aws_s3_bucket_server_side_encryption_configuration.bucket : one(one(e.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"])
    error_message = "want encryption by the bucket's key"
  }
}

run "nodes_are_private" {
  command = plan
  assert {
    condition     = !aws_eks_cluster.nodes.vpc_config[0].endpoint_public_access
    error_message = "want a private cluster"
  }
  assert {
    condition     = aws_eks_node_group.nodes["training"].scaling_config[0].max_size == 4
    error_message = "want up to four training nodes"
  }
}

run "names_are_checked" {
  command = plan
  variables { name = "Bad_Name" }
  expect_failures = [var.name]
}
