//go:build !amd64

package llamalib

// returnsByArgument: the address has a separate register.
const returnsByArgument = false
