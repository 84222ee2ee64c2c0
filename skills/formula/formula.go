// Package formula is the tool ocr-latex: it reads a line of print or a simple
// formula out of a picture, as LaTeX.
//
// Ink that hangs together is a component (ink.go). Components become items: a
// letter with its dot, an equals sign, a fraction about its bar (layout.go). Items
// that stand small and high are powers of what is before them, small and low ones
// its indices. What is left is compared with the letters of one font after the
// other (package glyph), and the font in which all of it looks most right is
// taken. It knows letters, digits and + - = / ! % ? , . : and no more: no
// brackets, no roots, no Greek, no handwriting.
package formula

import (
	"encoding/json"

	"mm-abi.org/mm/skills/glyph"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// New makes the function of the skill ocr-latex: {"image_ref": "#NAME"} to
// {"result": text}. The asset is a PNG or JPEG of dark print on a light ground or
// the other way round. Letters are what it compares with.
func New(letters func() (*glyph.Set, error)) builtin.Func {
	return func(call *builtin.Call) (any, error) {
		var args struct {
			Image string `json:"image_ref"`
		}
		if err := json.Unmarshal(call.Args, &args); err != nil {
			return nil, sandbox.Faultf(sandbox.Args, "reading the arguments: %v", err)
		}
		data, err := builtin.ReadImage(call, args.Image)
		if err != nil {
			return nil, err
		}
		r, err := builtin.DecodeImage(call, data)
		if err != nil {
			return nil, err
		}
		set, err := letters()
		if err != nil {
			return nil, err
		}
		text, err := Read(call, set, r.Pix, r.W, r.H)
		if err != nil {
			return nil, err
		}
		return map[string]any{"result": text}, nil
	}
}
