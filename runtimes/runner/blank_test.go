package runner

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// TestBlank: pictures of nearly one color and silence are blank, in each channel and up
// to the limits.
func TestBlank(t *testing.T) {
	picture := func(at color.RGBA) *Made {
		img := image.NewRGBA(image.Rect(0, 0, 4, 4))
		for i := range img.Pix {
			img.Pix[i] = 200
		}
		for i := 3; i < len(img.Pix); i += 4 {
			img.Pix[i] = 255
		}
		img.SetRGBA(3, 2, at)
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		return &Made{Modality: abi.Image, Data: b.Bytes()}
	}
	sound := func(v ...float32) *Made {
		var data []byte
		for _, x := range v {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		return &Made{Modality: abi.Audio, Tensor: runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{int64(len(v))}, Data: data}}
	}
	for name, c := range map[string]struct {
		out  *Made
		want bool
	}{
		"even":    {picture(color.RGBA{200, 200 - maxEven, 200, 255}), true},
		"green":   {picture(color.RGBA{200, 200 - maxEven - 1, 200, 255}), false},
		"blue":    {picture(color.RGBA{200, 200, 0, 255}), false},
		"silence": {sound(0, 0.999*maxQuiet, -0.999*maxQuiet), true},
		"tone":    {sound(0, -1.01*maxQuiet, 0), false},
	} {
		got, err := blank(c.out)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if _, err := blank(&Made{Modality: abi.Image, Data: []byte("no picture")}); err == nil {
		t.Error("a picture that does not decode")
	}
	a := &Answer{Made: []Made{
		{Modality: abi.Image, Part: builds.Part{Name: "img"}, Blank: true}, {Modality: abi.Image, Part: builds.Part{Name: "other"}}, {Modality: abi.Audio, Part: builds.Part{Name: "tts"}, Blank: true},
	}}
	want := []string{
		"the picture by img is blank: the prompt may be unlike those that it was trained on",
		"the sound by tts is blank: the prompt may be unlike those that it was trained on",
	}
	if d := cmp.Diff(want, a.Doubts()); d != "" {
		t.Error(d)
	}
}
