//go:build !linux && !darwin

package telemetry

// freeMiB is not known here.
func freeMiB(string) (float64, bool) { return 0, false }
