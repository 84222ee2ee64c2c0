//go:build amd64 || arm64

package pool

// pause tells the core that the caller spins.
//
//go:noescape
func pause()
