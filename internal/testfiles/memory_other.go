//go:build !linux

package testfiles

import "testing"

// InMemory runs the tests of a package and returns the exit status.
func InMemory(m *testing.M) int { return m.Run() }
