package builtin

import (
	"bytes"
	"io"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/skills/sandbox"
)

// Limits of an image asset.
const (
	MaxPixels = 1 << 21 // admits 1920 × 1080
	maxPasses = 32      // scans of a progressive JPEG
	perPixel  = 16      // bytes: the decoder's buffers, the image and its derivatives
)

// ReadImage returns the bytes of an asset named "#img0" or "img0".
func ReadImage(call *Call, name string) ([]byte, error) {
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

// IsImage reports whether data begins with the magic of a PNG or a JPEG.
func IsImage(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) || bytes.HasPrefix(data, []byte("\xff\xd8\xff"))
}

// DecodeImage decodes a PNG or JPEG to RGB. The size in the header is checked
// and charged to the call before a pixel is decoded.
func DecodeImage(call *Call, data []byte) (*preprocess.Raster, error) {
	if !IsImage(data) {
		return nil, sandbox.Faultf(sandbox.Args, "asset is not a PNG or JPEG")
	}
	var limit error
	r, err := preprocess.DecodeImageIf(data, func(w, h, passes int) error {
		if w > MaxPixels || h > MaxPixels || w*h > MaxPixels || passes > maxPasses {
			limit = sandbox.Faultf(sandbox.Args, "image too large: got %d × %d pixels in %d passes, limit %d pixels and %d passes", w, h, passes, MaxPixels, maxPasses)
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
