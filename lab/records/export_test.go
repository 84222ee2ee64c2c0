package records

const MaxID = maxID
