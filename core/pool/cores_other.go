//go:build !linux

package pool

// physicalCores returns 0: unknown on this system.
func physicalCores() int { return 0 }

// quota returns 0: no limit besides GOMAXPROCS is known on this system.
func quota() int { return 0 }
