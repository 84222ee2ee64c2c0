//go:build !linux

package qnnlib

// giveBack is for GNU's malloc.
func giveBack() {}
