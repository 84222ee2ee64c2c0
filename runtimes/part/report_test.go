package part

import (
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
)

func TestParseNumbers(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "[1]": 1, "1,2.5, -3e2": 3, "[0, 1]": 2} {
		if got, err := ParseNumbers(text); err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "1,", "[1", "1 2", "a.png"} {
		if got, err := ParseNumbers(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The text has an output unless the manifest processes it; an output in a file always.
func TestWriteText(t *testing.T) {
	for _, c := range []struct {
		processed bool
		file      string
		want      bool
	}{{false, "", true}, {false, "y.npy", true}, {true, "", false}, {true, "y.npy", true}} {
		var b strings.Builder
		r := Report{Outputs: []OutputReport{{Name: "logits", File: c.file}}, postprocessed: c.processed}
		if err := r.WriteText(&b); err != nil || strings.Contains(b.String(), "logits") != c.want {
			t.Errorf("%+v: %q, %v", c, b.String(), err)
		}
	}
}

// Scores of classes have a size that the manifest fixes; frames of a sound have not.
func TestClasses(t *testing.T) {
	m := &modules.Manifest{Tensors: modules.Tensors{Outputs: []abi.Port{
		{Name: "probs", Shape: abi.Shape{{Size: 4}}}, {Name: "frames", Shape: abi.Shape{{Size: 1}}}, {Name: "open", Shape: abi.Shape{{Name: "T"}}}, {Name: "scalar"},
	}}}
	for name, want := range map[string]bool{"probs": true, "frames": false, "open": false, "scalar": false, "none": false} {
		if got := classes(m, name, []int64{1, 4}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
