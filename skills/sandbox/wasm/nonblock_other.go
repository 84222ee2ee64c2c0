//go:build !unix

package wasm

// nonblock: there is no pipe in a folder.
const nonblock = 0
