package part

import "testing"

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
