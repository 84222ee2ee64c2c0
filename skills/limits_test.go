package skills

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills/sandbox"
)

// TestLimits covers maxText, abi.MaxToolCall and maxMessage on either side.
func TestLimits(t *testing.T) {
	shape, err := schemas.NewShape(Schema([]abi.Port{{Name: "s", Type: "str"}}))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{maxText: true, maxText + 1: false} {
		if err := shape.Check(map[string]any{"s": strings.Repeat("ü", n)}); (err == nil) != want {
			t.Errorf("a text of %d characters: %v", n, err)
		}
	}
	anything, err := schemas.NewShape([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{abi.MaxToolCall: true, abi.MaxToolCall + 1: false} {
		if f := (&skill{in: anything}).check([]byte(`"` + strings.Repeat("x", n-2) + `"`)); (f == nil) != want {
			t.Errorf("arguments of %d bytes: %v", n, f)
		}
	}
	for n, want := range map[int]int{maxMessage: maxMessage, maxMessage + 1: maxMessage + 1} { // with an ellipsis
		var line struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(Refused(nil, sandbox.Faultf(sandbox.Trap, "%s", strings.Repeat("x", n))).Line), &line); err != nil {
			t.Fatal(err)
		}
		if got := line.Error.Message; utf8.RuneCountInString(got) != want || strings.HasSuffix(got, "…") != (n > maxMessage) {
			t.Errorf("a message of %d bytes: got %d characters", n, utf8.RuneCountInString(got))
		}
	}
}
