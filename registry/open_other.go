//go:build !unix

package registry

// nonblock keeps the opening of a FIFO or a device from waiting; there are none
// in the folders of this system.
const nonblock = 0
