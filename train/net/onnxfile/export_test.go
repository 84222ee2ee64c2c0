package onnxfile

// MaxCount is the largest size of a readable tensor, which Countable checks.
const MaxCount = maxCount

var Countable = countable
