package wasm

import (
	"testing"

	"mm-abi.org/mm/skills/skilltest"
)

// TestWarm measures calls of a small guest: the cost of the sandbox.
func TestWarm(t *testing.T) { skilltest.Warm(t, open(t, Options{}), program(echo()), "wasm") }
