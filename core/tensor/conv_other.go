//go:build !amd64 || purego

package tensor

// bestConv: none are written for this processor.
var bestConv *convLevel
