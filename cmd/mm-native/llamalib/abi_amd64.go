package llamalib

// returnsByArgument: a large structure is written to the address in the first argument.
const returnsByArgument = true
