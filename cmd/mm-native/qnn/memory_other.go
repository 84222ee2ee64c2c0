//go:build !linux

package qnn

// giveBack is for GNU's malloc.
func giveBack() {}
