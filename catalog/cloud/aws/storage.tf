# One key for each bucket: access to a bucket is access to its key.
resource "aws_kms_key" "bucket" {
  for_each                = local.buckets
  description             = "${var.name} ${each.key}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "account"
      Effect    = "Allow"
      Principal = { AWS = "arn:aws:iam::${local.account}:root" }
      Action    = "kms:*"
      Resource  = "*"
    }]
  })
}

resource "aws_s3_bucket" "bucket" {
  # checkov:skip=CKV2_AWS_62:shards are announced by the queue, not by events of the bucket
  # checkov:skip=CKV_AWS_144:copies in other regions are a decision on cost and law, not a default
  # checkov:skip=CKV2_AWS_6:the resource below has one for each bucket, which checkov does not follow; tests/wiring.tftest.hcl asserts it
  # checkov:skip=CKV2_AWS_61:the resource below has one for each bucket, which checkov does not follow; tests/wiring.tftest.hcl asserts it
  # checkov:skip=CKV_AWS_21:the resource below has one for each bucket, which checkov does not follow; tests/wiring.tftest.hcl asserts it
  # checkov:skip=CKV_AWS_145:the resource below has one for each bucket, which checkov does not follow; tests/wiring.tftest.hcl asserts it
  # checkov:skip=CKV_AWS_18:access is logged by CloudTrail of the account
  for_each = local.buckets
  bucket   = "${var.name}-${each.key}-${local.account}"
}

resource "aws_s3_bucket_versioning" "bucket" {
  for_each = local.buckets
  bucket   = aws_s3_bucket.bucket[each.key].id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "bucket" {
  for_each = local.buckets
  bucket   = aws_s3_bucket.bucket[each.key].id
  rule {
    bucket_key_enabled = true
    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.bucket[each.key].arn
    }
  }
}

resource "aws_s3_bucket_public_access_block" "bucket" {
  for_each                = local.buckets
  bucket                  = aws_s3_bucket.bucket[each.key].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "bucket" {
  for_each = local.buckets
  bucket   = aws_s3_bucket.bucket[each.key].id
  rule {
    id     = "old"
    status = "Enabled"
    filter {}
    noncurrent_version_expiration {
      noncurrent_days = var.retention_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

resource "aws_kms_key" "shared" {
  description             = "${var.name} queue, registry and manifests"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = aws_kms_key.bucket["raw"].policy
}

resource "aws_dynamodb_table" "manifests" {
  name         = "${var.name}-manifests"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "name"
  range_key    = "version"
  attribute {
    name = "name"
    type = "S"
  }
  attribute {
    name = "version"
    type = "S"
  }
  point_in_time_recovery {
    enabled = true
  }
  server_side_encryption {
    enabled     = true
    kms_key_arn = aws_kms_key.shared.arn
  }
}

resource "aws_sqs_queue" "failed" {
  name              = "${var.name}-shards-failed"
  kms_master_key_id = aws_kms_key.shared.arn
}

resource "aws_sqs_queue" "shards" {
  name                       = "${var.name}-shards"
  kms_master_key_id          = aws_kms_key.shared.arn
  visibility_timeout_seconds = 900
  redrive_policy             = jsonencode({ deadLetterTargetArn = aws_sqs_queue.failed.arn, maxReceiveCount = 5 })
}

resource "aws_ecr_repository" "registry" {
  name                 = var.name
  image_tag_mutability = "IMMUTABLE"
  image_scanning_configuration {
    scan_on_push = true
  }
  encryption_configuration {
    encryption_type = "KMS"
    kms_key         = aws_kms_key.shared.arn
  }
}
