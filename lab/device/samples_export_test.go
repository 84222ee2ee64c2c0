package device

const MaxSamples = maxBytes
