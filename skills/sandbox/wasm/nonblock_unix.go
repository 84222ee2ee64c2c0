//go:build unix

package wasm

import "syscall"

// nonblock makes opening a pipe without a writer return immediately.
const nonblock = syscall.O_NONBLOCK
