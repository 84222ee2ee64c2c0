package figure

import (
	"encoding/json"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Formula returns the function of the skill ocr-latex: {"image_ref": "#NAME"} to
// {"result": text}. The asset is a PNG or JPEG of dark print on a light
// background or the reverse. Letters are compared with the image.
func Formula(letters func() (*Set, error)) builtin.Func {
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
		text, err := ReadFormula(call, set, r.Pix, r.W, r.H)
		if err != nil {
			return nil, err
		}
		return map[string]any{"result": text}, nil
	}
}
