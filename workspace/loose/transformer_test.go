package loose

import (
	"slices"
	"testing"
)

func TestMaxFolder(t *testing.T) {
	for more, want := range []bool{true, false} {
		names := append([]string{"ignored.bin"}, slices.Repeat([]string{"w.safetensors"}, maxFolder+more)...)
		if got, err := inputNames(names); (err == nil) != want || want && len(got) != maxFolder {
			t.Errorf("maxFolder+%d: %d names, %v", more, len(got), err)
		}
	}
}
