package llamalib

// returnsByArgument: a large structure is written to where the first argument
// points.
const returnsByArgument = true
