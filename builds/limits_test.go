package builds_test

import (
	"bytes"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

func TestMaxAssembly(t *testing.T) {
	a := builds.Assembly{Name: "a", Version: "1.0.0", ABI: abi.V1_0, Core: builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {"core.gguf"}}}}
	data, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range []bool{true, false} {
		padded := append(bytes.Clone(data), bytes.Repeat([]byte(" "), builds.MaxAssembly-len(data)+more)...)
		if _, err := builds.ParseAssembly(padded); (err == nil) != want {
			t.Errorf("MaxAssembly+%d: %v", more, err)
		}
	}
}
