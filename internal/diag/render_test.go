package diag_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
)

const excerpt = "core:\n  llm: {ref: core-llm@3.1.0, d_model: 256} # the core\nmodalities:\n\t- \"日本\": \"a \\\" b\"\n"

func read(file string) ([]byte, error) {
	if file != "a.yaml" {
		return nil, errors.New("not there")
	}
	return []byte(excerpt), nil
}

func TestRender(t *testing.T) {
	var list diag.List
	list.Add(diag.WidthDiffers, diag.Pos{File: "a.yaml", Line: 2, Col: 39}, "d_model is 256, the core's 512", "write d_model: 512, or use a core of that width, of which there are several")
	list.Warn(diag.UnknownKey, diag.Pos{File: "a.yaml", Line: 2, Col: 3}, "", "")
	list.Note(diag.NotMM, diag.Pos{File: "a.yaml", Line: 4, Col: 4}, "wide\x1b[31m", "")
	list.Add(diag.NotMM, diag.Pos{File: "a.yaml", Line: 4, Col: 10}, "", "")
	list.Add(diag.NotMM, diag.Pos{File: "a.yaml", Line: 99, Col: 1}, "past the end", "")
	list.Add(diag.NotMM, diag.Pos{File: "gone.yaml", Line: 1, Col: 1}, "", "")
	list.Add(diag.NotMM, diag.Pos{}, "no place", "")
	var b strings.Builder
	if err := list.Render(&b, diag.Style{Read: read, Width: 50}); err != nil {
		t.Fatal(err)
	}
	want := `error MM0305: width differs from the core
  --> a.yaml:2:39
   |
 2 |   llm: {ref: core-llm@3.1.0, d_model: 256} # the core
   |                                       ^^^
   = d_model is 256, the core's 512
   = hint: write d_model: 512, or use a core of
           that width, of which there are several

warning MM0101: unknown key
  --> a.yaml:2:3
   |
 2 |   llm: {ref: core-llm@3.1.0, d_model: 256} # the core
   |   ^^^

note MM0008: unrecognized document
  --> a.yaml:4:4
   |
 4 |     - "日本": "a \" b"
   |       ^^^^^^
   = wide\x1b[31m

error MM0008: unrecognized document
  --> a.yaml:4:10
   |
 4 |     - "日本": "a \" b"
   |               ^^^^^^^^

error MM0008: unrecognized document
  --> a.yaml:99:1
   = past the end

error MM0008: unrecognized document
  --> gone.yaml:1:1

error MM0008: unrecognized document
   = no place
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Colours are ours alone, and only where they are asked for.
func TestRenderColour(t *testing.T) {
	var list diag.List
	list.Add(diag.NotMM, diag.Pos{File: "a.yaml", Line: 1, Col: 1}, "x\x1b[2J", "y")
	var plain, coloured strings.Builder
	if err := errors.Join(list.Render(&plain, diag.Style{Read: read}), list.Render(&coloured, diag.Style{Read: read, Colour: true})); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Errorf("escapes in plain text: %q", plain.String())
	}
	if !strings.Contains(coloured.String(), "\x1b[1;31m^^^^") || strings.Contains(coloured.String(), "\x1b[2J") {
		t.Errorf("got %q", coloured.String())
	}
}
