//go:build !unix

package disk

// nonblock is empty: this system has no FIFOs in folders.
const nonblock = 0
