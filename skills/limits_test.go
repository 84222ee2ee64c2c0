package skills

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills/sandbox"
)

type file struct {
	builds.Files
	path string
}

func (f file) Open(string) (*os.File, error) { return os.Open(f.path) }

// TestLimits covers sandbox.MaxCode, maxText, abi.MaxToolCall and maxMessage on either side.
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
	part := builds.SkillPart{Part: builds.Part{Files: builds.Formats{"wasm": {"x.wasm"}}}}
	path := filepath.Join(t.TempDir(), "x.wasm")
	for n, want := range map[int64]bool{sandbox.MaxCode: true, sandbox.MaxCode + 1: false} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := code(file{path: path}, part, "wasm"); (err == nil) != want {
			t.Errorf("a program of %d bytes: %v", n, err)
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
