//go:build !linux

package panel

// hugePages returns n zero bytes on pages of the system's choice.
func hugePages(n int) []byte { return aligned(n, cacheLine) }
