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

run "bucket_key" {
  command = plan
  override_resource {
    target          = aws_kms_key.bucket["raw"]
    values          = { arn = "arn:aws:kms:eu-central-1:123456789012:key/raw" }
    override_during = plan
  }
  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.bucket["raw"].rule).apply_server_side_encryption_by_default).kms_master_key_id == output.keys["raw"]
    error_message = "want each bucket under its own key"
  }
}

run "network_is_private" {
  command = plan
  assert {
    condition     = alltrue([for r in concat(tolist(aws_security_group.nodes.ingress), tolist(aws_security_group.nodes.egress)) : r.cidr_blocks == tolist(["10.40.0.0/16"])])
    error_message = "want traffic of the network alone"
  }
  assert {
    condition     = toset(concat(keys(aws_vpc_endpoint.gateway), keys(aws_vpc_endpoint.interface))) == toset(["s3", "dynamodb", "sqs", "kms", "ecr.api", "ecr.dkr", "sts", "ec2", "eks"])
    error_message = "want a private endpoint of each service"
  }
}

run "runners_are_one_subject" {
  command = plan
  override_resource {
    target          = aws_iam_openid_connect_provider.runner
    values          = { arn = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com" }
    override_during = plan
  }
  override_resource {
    target          = aws_s3_bucket.bucket
    values          = { arn = "arn:aws:s3:::lab" }
    override_during = plan
  }
  override_resource {
    target          = aws_kms_key.bucket
    values          = { arn = "arn:aws:kms:eu-central-1:123456789012:key/bucket" }
    override_during = plan
  }
  override_resource {
    target          = aws_kms_key.shared
    values          = { arn = "arn:aws:kms:eu-central-1:123456789012:key/shared" }
    override_during = plan
  }
  override_resource {
    target          = aws_sqs_queue.shards
    values          = { arn = "arn:aws:sqs:eu-central-1:123456789012:lab-shards" }
    override_during = plan
  }
  override_resource {
    target          = aws_dynamodb_table.manifests
    values          = { arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/lab-manifests" }
    override_during = plan
  }
  assert {
    condition     = jsondecode(aws_iam_role.runner.assume_role_policy).Statement[0].Condition.StringEquals["token.actions.githubusercontent.com:sub"] == "repo:team/models:ref:refs/heads/main"
    error_message = "want tokens of one subject"
  }
  assert {
    condition     = alltrue([for s in jsondecode(aws_iam_role_policy.runner.policy).Statement : !contains(flatten([s.Resource]), "*") && alltrue([for a in flatten([s.Action]) : !strcontains(a, "*")])])
    error_message = "want actions and resources by name"
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
