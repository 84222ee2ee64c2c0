package records

const MaxEvidence = maxEvidence
