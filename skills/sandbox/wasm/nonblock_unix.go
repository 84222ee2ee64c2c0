//go:build unix

package wasm

import "syscall"

// nonblock has a pipe without a writer opened at once.
const nonblock = syscall.O_NONBLOCK
