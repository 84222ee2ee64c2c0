//go:build !linux

package pool

// physicalCores is not known here.
func physicalCores() int { return 0 }

// quota is not known here beyond what GOMAXPROCS says.
func quota() int { return 0 }
