package wasm

import (
	"testing"

	"mm-abi.org/mm/skills/skilltest"
)

// Warm calls of a small guest: what the sandbox itself takes.
func TestWarm(t *testing.T) { skilltest.Warm(t, open(t, Options{}), program(echo()), "wasm") }
