package part

import (
	"strings"
	"testing"
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
