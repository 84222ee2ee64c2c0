resource "aws_vpc" "private" {
  # checkov:skip=CKV2_AWS_11:flow logs belong to the account's log archive
  cidr_block           = var.network_cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
}

resource "aws_default_security_group" "none" {
  vpc_id = aws_vpc.private.id
}

resource "aws_subnet" "private" {
  count             = 2
  vpc_id            = aws_vpc.private.id
  cidr_block        = cidrsubnet(var.network_cidr, 4, count.index)
  availability_zone = data.aws_availability_zones.available.names[count.index]
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.private.id
}

resource "aws_route_table_association" "private" {
  count          = 2
  subnet_id      = aws_subnet.private[count.index].id
  route_table_id = aws_route_table.private.id
}

resource "aws_security_group" "nodes" {
  name        = "${var.name}-nodes"
  description = "Nodes and endpoints: HTTPS within the network"
  vpc_id      = aws_vpc.private.id
  ingress {
    description = "HTTPS from the network"
    from_port   = 443
    to_port     = 443
    protocol    = "tcp"
    cidr_blocks = [var.network_cidr]
  }
  egress {
    description = "HTTPS to the network"
    from_port   = 443
    to_port     = 443
    protocol    = "tcp"
    cidr_blocks = [var.network_cidr]
  }
}

# The nodes have no way to the internet: storage and services by endpoints.
resource "aws_vpc_endpoint" "gateway" {
  for_each          = toset(["s3", "dynamodb"])
  vpc_id            = aws_vpc.private.id
  service_name      = "com.amazonaws.${var.region}.${each.key}"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.private.id]
}

resource "aws_vpc_endpoint" "interface" {
  for_each            = toset(["sqs", "kms", "ecr.api", "ecr.dkr", "sts", "ec2", "eks"])
  vpc_id              = aws_vpc.private.id
  service_name        = "com.amazonaws.${var.region}.${each.key}"
  vpc_endpoint_type   = "Interface"
  subnet_ids          = aws_subnet.private[*].id
  security_group_ids  = [aws_security_group.nodes.id]
  private_dns_enabled = true
}

# Runners sign in with the token of their platform; no key of an account exists.
resource "aws_iam_openid_connect_provider" "runner" {
  url            = var.runner_issuer
  client_id_list = ["sts.amazonaws.com"]
}

resource "aws_iam_role" "runner" {
  name = "${var.name}-runner"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Federated = aws_iam_openid_connect_provider.runner.arn }
      Action    = "sts:AssumeRoleWithWebIdentity"
      Condition = { StringEquals = {
        "${replace(var.runner_issuer, "https://", "")}:aud" = "sts.amazonaws.com"
        "${replace(var.runner_issuer, "https://", "")}:sub" = var.runner_subject
      } }
    }]
  })
}

resource "aws_iam_role_policy" "runner" {
  name = "work"
  role = aws_iam_role.runner.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
      Resource = flatten([for b in aws_s3_bucket.bucket : [b.arn, "${b.arn}/*"]]) },
      { Effect = "Allow", Action = ["kms:Decrypt", "kms:GenerateDataKey"], Resource = concat([for k in aws_kms_key.bucket : k.arn], [aws_kms_key.shared.arn]) },
      { Effect = "Allow", Action = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"], Resource = aws_sqs_queue.shards.arn },
      { Effect = "Allow", Action = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"], Resource = aws_dynamodb_table.manifests.arn },
    ]
  })
}
