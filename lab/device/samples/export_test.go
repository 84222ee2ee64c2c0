package samples

const MaxBytes = maxBytes
