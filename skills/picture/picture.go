// Package picture reads the pictures that skills are given, within the limits
// of their calls.
package picture

import (
	"bytes"
	"io"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// Bounds of a picture that a skill looks at.
const (
	MaxPixels = 1 << 21 // 1920 × 1080 is within
	maxPasses = 32      // of a JPEG's decoder over it
	perPixel  = 16      // bytes: a decoder's buffers, the picture and what is made of it
)

// Bytes reads an asset, "#img0" or "img0".
func Bytes(call *builtin.Call, name string) ([]byte, error) {
	if len(name) > 0 && name[0] == '#' {
		name = name[1:]
	}
	r, err := call.Asset(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, sandbox.Faultf(sandbox.Args, "reading #%s: %v", name, err)
	}
	return data, nil
}

// Is says whether bytes begin as a PNG or a JPEG does.
func Is(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) || bytes.HasPrefix(data, []byte("\xff\xd8\xff"))
}

// Decode decodes a PNG or JPEG to red, green and blue. What the header says is
// judged and charged to the call before a pixel is decoded.
func Decode(call *builtin.Call, data []byte) (*preprocess.Raster, error) {
	if !Is(data) {
		return nil, sandbox.Faultf(sandbox.Args, "the asset is no PNG and no JPEG")
	}
	var limit error
	r, err := preprocess.DecodeImageIf(data, func(w, h, passes int) error {
		if w > MaxPixels || h > MaxPixels || w*h > MaxPixels || passes > maxPasses {
			limit = sandbox.Faultf(sandbox.Args, "a picture of %d × %d pixels in %d passes; %d pixels and %d passes are the limit", w, h, passes, MaxPixels, maxPasses)
		} else if limit = call.Hold(int64(w) * int64(h) * perPixel); limit == nil {
			limit = call.Step(int64(w) * int64(h) * int64(passes))
		}
		return limit
	})
	if limit != nil {
		return nil, limit
	}
	if err != nil {
		return nil, sandbox.Faultf(sandbox.Args, "%v", err)
	}
	return r, nil
}
