package modality

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
)

// Literal returns the tensor of literal numbers for an input: one number fills it;
// several are put into its shape, of which one dimension may be open.
func (s *Session) Literal(name string, numbers []float64) (runtimes.Tensor, error) {
	if s.m == nil {
		return runtimes.Tensor{}, errors.New("unknown input type: pass a .npy file")
	}
	if name == "" {
		port, err := s.only(s.m.FreeInputs(), nil)
		if err != nil {
			return runtimes.Tensor{}, err
		}
		name = port
	}
	if t, ok := s.held(name); ok && len(numbers) == 1 {
		return fill(t.Type, t.Shape, numbers[0])
	}
	elem, dims, err := s.portType(name)
	if err != nil {
		return runtimes.Tensor{}, &InputError{name, "is not an input of " + s.m.ID(), "it takes " + list(s.m.FreeInputs())}
	}
	shape := make([]int64, len(dims))
	fixed, open := int64(1), -1
	for i, d := range dims {
		shape[i] = max(d, 1)
		if d > 0 && fixed <= math.MaxInt32/d {
			fixed *= d
		} else if d == 0 {
			open = i // the innermost
		}
	}
	if len(numbers) == 1 {
		return fill(elem, shape, numbers[0])
	}
	count := int64(len(numbers))
	if open >= 0 && count%fixed == 0 {
		shape[open] = count / fixed
		fixed = count
	}
	if fixed != count {
		return runtimes.Tensor{}, fmt.Errorf("%d numbers for an input of %s %v", count, elem, shown(dims))
	}
	t := runtimes.Tensor{Type: elem, Shape: shape}
	for _, v := range numbers {
		b, err := number(elem, v)
		if err != nil {
			return t, err
		}
		t.Data = append(t.Data, b...)
	}
	return t, t.Check()
}

// held returns the tensor of a state or a constant.
func (s *Session) held(name string) (runtimes.Tensor, bool) {
	if t, ok := s.constants[name]; ok {
		return t, true
	}
	t, ok := s.initial[name]
	return t, ok
}

// EncodeArray encodes a tensor as a .npy file.
func EncodeArray(t runtimes.Tensor) ([]byte, error) {
	a, err := ToArray(t)
	if err != nil {
		return nil, err
	}
	return npy.Encode(a)
}

// EncodePicture encodes a tensor as a PNG: [1, C, H, W] or [1, H, W, C] with C 1 or
// 3, or without the leading 1, or [H, W]. Floats that are all in [0, 1] are scaled
// by 255; values outside [0, 255] are clamped.
func EncodePicture(t runtimes.Tensor) ([]byte, error) {
	v, err := Numbers(t)
	if err != nil {
		return nil, err
	}
	high := 255.0
	if len(v) > 0 && t.Type != runtimes.Uint8 && slices.Min(v) >= 0 && slices.Max(v) <= 1 {
		high = 1
	}
	return drawn(t, v, 0, high)
}

// DrawPicture encodes a tensor of these shapes as a PNG with known levels: floats
// are scaled from low, dark, to high, bright; bytes are 0 to 255. Values outside are
// clamped. Other types, NaN and infinities are errors.
func DrawPicture(t runtimes.Tensor, low, high float64) ([]byte, error) {
	switch t.Type {
	case runtimes.Uint8:
		low, high = 0, 255
	case runtimes.Float16, runtimes.BFloat16, runtimes.Float32, runtimes.Float64:
	default:
		return nil, fmt.Errorf("%s %v is not an image", t.Type, t.Shape)
	}
	v, err := Numbers(t)
	if err != nil {
		return nil, err
	}
	return drawn(t, v, low, high)
}

// drawn encodes numbers from low, dark, to high as an image.
func drawn(t runtimes.Tensor, v []float64, low, high float64) ([]byte, error) {
	shape := t.Shape
	if len(shape) == 4 && shape[0] == 1 {
		shape = shape[1:]
	}
	if len(shape) == 2 {
		shape = append([]int64{1}, shape...)
	}
	var h, w, c int
	var at func(x, y, i int) int
	switch {
	case len(shape) == 3 && (shape[0] == 1 || shape[0] == 3):
		c, h, w = int(shape[0]), int(shape[1]), int(shape[2])
		at = func(x, y, i int) int { return (i*h+y)*w + x }
	case len(shape) == 3 && (shape[2] == 1 || shape[2] == 3):
		h, w, c = int(shape[0]), int(shape[1]), int(shape[2])
		at = func(x, y, i int) int { return (y*w+x)*c + i }
	}
	if len(v) == 0 || at == nil || h*w > preprocess.MaxPixels {
		return nil, fmt.Errorf("%s %v is not an image", t.Type, t.Shape)
	}
	if slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
		return nil, errors.New("contains NaN or infinity")
	}
	scale := 255 / (high - low)
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			var p [3]uint8
			for i := range p {
				p[i] = uint8(min(max(math.RoundToEven((v[at(x, y, min(i, c-1))]-low)*scale), 0), 255))
			}
			m.SetRGBA(x, y, color.RGBA{p[0], p[1], p[2], 255})
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// EncodeSound encodes a tensor of samples, [S] or [1, …, S], as a WAV file at the
// module's sample rate.
func (s *Session) EncodeSound(t runtimes.Tensor) ([]byte, error) {
	v, err := Numbers(t)
	if err != nil {
		return nil, err
	}
	if len(v) == 0 || len(t.Shape) == 0 || t.Shape[len(t.Shape)-1] != int64(len(v)) {
		return nil, fmt.Errorf("%s %v is not a sound", t.Type, t.Shape)
	}
	w := &preprocess.Wave{Rate: s.Rate(), Samples: make([]float32, len(v))}
	if w.Rate == 0 {
		return nil, errors.New("unknown sample rate: add sample_rate to the manifest's caps")
	}
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errors.New("contains NaN or infinity")
		}
		w.Samples[i] = float32(x)
	}
	return preprocess.EncodeWAV(w), nil
}

// Rate returns the module's sample rate in Hz, or 0 if unknown: sample_rate of caps
// or params, or of the preprocess block, or the end of params.codec, such as
// encodec-16khz.
func (s *Session) Rate() int {
	if s.m == nil {
		return 0
	}
	if n, ok := s.m.Caps.Int("sample_rate"); ok {
		return int(n)
	}
	if n, ok := s.m.Params.Int("sample_rate"); ok {
		return int(n)
	}
	for _, spec := range s.m.Preprocess {
		if spec.SampleRate > 0 {
			return spec.SampleRate
		}
	}
	codec, _ := s.m.Params["codec"].(string)
	if _, name, ok := strings.Cut(codec, "-"); ok {
		name = name[strings.LastIndexByte(name, '-')+1:]
		if n, err := strconv.Atoi(strings.TrimSuffix(name, "khz")); err == nil && strings.HasSuffix(name, "khz") && n > 0 && n <= 1000 {
			return 1000 * n
		}
	}
	return 0
}
