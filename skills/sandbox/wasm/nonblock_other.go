//go:build !unix

package wasm

// nonblock is 0: folders hold no pipes.
const nonblock = 0
