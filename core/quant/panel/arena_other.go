//go:build !linux

package panel

// hugePages gives n zero bytes; what pages they lie on is the system's choice.
func hugePages(n int) []byte { return aligned(n, cacheLine) }
