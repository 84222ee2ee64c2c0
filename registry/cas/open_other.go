//go:build !unix

package cas

// nonblock is empty: this system has no FIFOs in folders.
const nonblock = 0
