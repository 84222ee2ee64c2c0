variable "name" {
  description = "Prefix of all names: lower case letters, digits and hyphens."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,20}$", var.name))
    error_message = "name: want 3 to 21 lower case letters, digits and hyphens, a letter first."
  }
}

variable "region" {
  description = "Region of all resources."
  type        = string
}

variable "labels" {
  description = "Labels of all resources."
  type        = map(string)
  default     = {}
}

variable "network_cidr" {
  description = "Addresses of the private network."
  type        = string
  default     = "10.40.0.0/16"
  validation {
    condition     = can(cidrhost(var.network_cidr, 0)) && endswith(var.network_cidr, "/16")
    error_message = "network_cidr: want a range of 65,536 addresses, such as 10.40.0.0/16."
  }
}

variable "training" {
  description = "Training nodes: machine type, least and most nodes. Zero nodes cost nothing."
  type        = object({ machine = string, min = number, max = number })
}

variable "inference" {
  description = "Inference nodes: machine type, least and most nodes."
  type        = object({ machine = string, min = number, max = number })
}

variable "runner_issuer" {
  description = "OIDC issuer of the runners, such as https://token.actions.githubusercontent.com."
  type        = string
}

variable "runner_subject" {
  description = "Subject of the runners' tokens, such as repo:team/models:ref:refs/heads/main."
  type        = string
}

variable "retention_days" {
  description = "Days that old versions of objects are kept."
  type        = number
  default     = 30
  validation {
    condition     = var.retention_days >= 1 && var.retention_days <= 365
    error_message = "retention_days: want 1 to 365."
  }
}
