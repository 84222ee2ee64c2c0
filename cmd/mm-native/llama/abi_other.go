//go:build !amd64

package llama

// returnsByArgument: the pointer has a register of its own.
const returnsByArgument = false
