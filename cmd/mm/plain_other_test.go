//go:build !linux

package main

// plainMain is mm: on these systems tests do not run as root.
func plainMain() { main() }
