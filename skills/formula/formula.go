// Package formula implements the tool ocr-latex: it reads a line of print or a
// simple formula from an image, as LaTeX.
//
// Connected ink is a component (ink.go). Components become items: a letter
// with its dot, an equals sign, a fraction with its bar (layout.go). Small
// high items are exponents of what precedes them, small low ones indices. The
// others are compared with the letters of one font after the other (package
// glyph), and the font that matches best is used. Supported are letters,
// digits and + - = / ! % ? , . : but no brackets, roots, Greek letters or
// handwriting.
package formula

import (
	"encoding/json"

	"mm-abi.org/mm/skills/glyph"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// New returns the function of the skill ocr-latex: {"image_ref": "#NAME"} to
// {"result": text}. The asset is a PNG or JPEG of dark print on a light
// background or the reverse. Letters are compared with the image.
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
