//go:build !linux && !darwin

package telemetry

// freeMiB is not available on this platform.
func freeMiB(string) (float64, bool) { return 0, false }
