//go:build !linux

package qnnlib

// giveBack does nothing: it is for GNU's malloc.
func giveBack() {}
