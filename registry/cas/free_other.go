//go:build !linux && !darwin

package cas

// Free is not available on this system.
func Free(string) (int64, bool) { return 0, false }
