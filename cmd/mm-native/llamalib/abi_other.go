//go:build !amd64

package llamalib

// returnsByArgument: the pointer has a register of its own.
const returnsByArgument = false
