package runtimetest_test

import (
	"testing"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// The suite passes on the fake, so that a failure elsewhere is the backend's.
func TestFake(t *testing.T) {
	runtimetest.Test(t, runtimetest.Subject{
		Backend: &runtimetest.Fake{Text: "one two three four five six seven eight nine ten"},
		Weights: runtimes.Weights{Paths: map[string]string{"gguf": "x"}},
	})
}
