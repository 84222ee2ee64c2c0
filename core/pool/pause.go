//go:build amd64 || arm64

package pool

// pause is a hint to the core that the caller spins.
//
//go:noescape
func pause()
