package backends

const MaxEvidence = maxEvidence
