// Package preprocess converts images, sounds and videos to tensors as a model
// was trained on.
//
// A [Spec] configures it, in the keys of a module's preprocess block. An image
// is decoded ([DecodeImage]), rotated by its EXIF data, resized with
// antialiasing, cropped, padded, normalized and laid out ([Spec.FromImage]). A
// sound is decoded ([DecodeSound]), mixed to one channel, resampled to the
// model's rate and, if configured, converted to mel frames ([Spec.Samples],
// [Spec.FromSamples]). A video is [Frames], some of which become images for the
// model ([Spec.FromFrames]).
//
// The arithmetic follows the libraries used for training: resizing is Pillow's,
// resampling SciPy's resample_poly, mel spectrograms librosa's. The tests
// compare with their results.
//
// Files are untrusted: sizes are checked in headers before decoding, and an
// unknown format is an error.
package preprocess

import (
	"fmt"
	"math"
	"slices"
)

// Spec configures the conversion of an image or a sound to a tensor. With a
// sample rate it is for sounds.
type Spec struct {
	// Layout is the order of the axes. Images: NCHW, NHWC, CHW, HWC. Sounds:
	// NT, T, and with mel frames NMT, NTM, MT, TM, NCMT, NCTM; N is 1.
	Layout string `json:"layout,omitempty"`
	DType  string `json:"dtype,omitempty"` // fp32 (default), fp16, uint8, int16

	// An element is (v·Scale − Mean) / Std: v is 0 to 255 in images and −1 to 1
	// in samples. Mean and Std have one number, or one for each channel or
	// band.
	Scale float64   `json:"scale,omitempty"` // 0: 1
	Mean  []float64 `json:"mean,omitempty"`
	Std   []float64 `json:"std,omitempty"`

	Picture
	Sound
}

// Picture configures images. At most one of Resize, ShortestEdge, Height, Tiles and
// Fit may be set; by default the image keeps its size.
type Picture struct {
	Resize       []int   `json:"resize,omitempty"`        // height, width
	ShortestEdge int     `json:"shortest_edge,omitempty"` // the other side in proportion
	Height       int     `json:"height,omitempty"`        // the width in proportion
	MaxWidth     int     `json:"max_width,omitempty"`     // with Height: wider images are squeezed
	MinWidth     int     `json:"min_width,omitempty"`     // narrower images are padded on the right
	MultipleOf   int     `json:"multiple_of,omitempty"`   // height and width are padded to it
	Crop         []int   `json:"crop,omitempty"`          // height, width of the center crop after resizing
	CropRound    string  `json:"crop_round,omitempty"`    // of its start: even (default, torchvision), down (transformers)
	Resample     string  `json:"resample,omitempty"`      // nearest, bilinear (default), bicubic, lanczos
	Color        string  `json:"color,omitempty"`         // rgb (default), bgr, gray
	Pad          float64 `json:"pad,omitempty"`           // value of padding, 0 to 255
	Frames       int     `json:"frames,omitempty"`        // number of frames of a video
	Tiles        *Tiles  `json:"tiles,omitempty"`         // the image is divided, and not resized otherwise
	Fit          *Fit    `json:"fit,omitempty"`           // the image is resized to a size that depends on its own
}

// Sound configures sounds: samples, or mel frames if NMels is set.
type Sound struct {
	SampleRate int `json:"sample_rate,omitempty"` // Hz
	// Chunk is the number of new samples per call, Context the number of
	// earlier samples before them. If zero, one call takes the whole sound.
	Chunk   int `json:"chunk,omitempty"`
	Context int `json:"context,omitempty"`
	// Normalize normalizes the samples to mean 0 and variance 1.
	Normalize bool `json:"normalize,omitempty"`

	NMels    int     `json:"n_mels,omitempty"`
	Window   int     `json:"window,omitempty"` // samples under the Hann window
	NFFT     int     `json:"n_fft,omitempty"`  // 0: Window
	Hop      int     `json:"hop,omitempty"`    // samples from frame to frame; 0: Window / 4
	Uncenter bool    `json:"uncenter,omitempty"`
	Edge     string  `json:"edge,omitempty"`     // padding of a centered sound: zero (default), reflect
	Power    float64 `json:"power,omitempty"`    // of the magnitude; 0: 2
	Mel      string  `json:"mel,omitempty"`      // slaney (default), htk
	MelNorm  string  `json:"mel_norm,omitempty"` // slaney (default): bands of equal area; none
	FMin     float64 `json:"f_min,omitempty"`    // Hz
	FMax     float64 `json:"f_max,omitempty"`    // Hz; 0: half the sample rate
	Log      string  `json:"log,omitempty"`      // none (default), ln, log10, db
	Floor    float64 `json:"floor,omitempty"`    // under the logarithm; 0: 1e-10
	Range    float64 `json:"range,omitempty"`    // dynamic range below the maximum; 0: unlimited
	Span     *Span   `json:"span,omitempty"`     // sounds of one length
}

// Tensor is elements in row-major order, little endian.
type Tensor struct {
	DType string // as in Spec
	Shape []int
	Data  []byte
}

// IsSound reports whether the spec is for sounds.
func (s *Spec) IsSound() bool { return s.SampleRate > 0 }

// Fault is an invalid value in a spec.
type Fault struct {
	Key    string // of the block
	Detail string
}

// Error includes the key.
func (f Fault) Error() string { return f.Key + ": " + f.Detail }

var (
	pictureLayouts = []string{"NCHW", "NHWC", "CHW", "HWC"}
	sampleLayouts  = []string{"NT", "T"}
	melLayouts     = []string{"NMT", "NTM", "MT", "TM", "NCMT", "NCTM"}
)

// maxSide limits a side of an image, maxFFT a window.
const (
	maxSide  = 1 << 16
	maxFFT   = 1 << 16
	maxMels  = 1024
	maxChunk = 1 << 26
)

// Check returns all invalid values of the spec.
func (s *Spec) Check() []Fault {
	var faults []Fault
	wrong := func(key, format string, args ...any) {
		faults = append(faults, Fault{key, fmt.Sprintf(format, args...)})
	}
	oneOf := func(key, v string, allowed ...string) {
		if v != "" && !slices.Contains(allowed, v) {
			wrong(key, "got %q, want one of %v", v, allowed)
		}
	}
	oneOf("dtype", s.DType, "fp32", "fp16", "uint8", "int16")
	for _, f := range append(slices.Clone(s.Mean), append(slices.Clone(s.Std), s.Scale, s.Pad, s.Power, s.FMin, s.FMax, s.Floor, s.Range)...) {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			wrong("scale", "got a number that is not finite")
		}
	}
	if slices.ContainsFunc(s.Std, func(v float64) bool { return v <= 0 }) {
		wrong("std", "got a standard deviation that is not above 0")
	}
	if s.IsSound() {
		s.checkSound(wrong, oneOf)
	} else {
		s.checkPicture(wrong, oneOf)
	}
	for _, v := range []struct {
		key string
		n   int
	}{{"mean", len(s.Mean)}, {"std", len(s.Std)}} {
		if v.n > 1 && v.n != s.channels() {
			wrong(v.key, "got %d numbers, want 1 or %d", v.n, s.channels())
		}
	}
	return faults
}

func (s *Spec) checkPicture(wrong func(key, format string, args ...any), oneOf func(key, v string, allowed ...string)) {
	if !isZero(s.Sound) {
		wrong("sample_rate", "missing sample rate of a sound, or keys of a sound in an image")
	}
	oneOf("layout", s.Layout, pictureLayouts...)
	oneOf("resample", s.Resample, "nearest", "bilinear", "bicubic", "lanczos")
	oneOf("color", s.Color, "rgb", "bgr", "gray")
	oneOf("crop_round", s.CropRound, "even", "down")
	if s.CropRound != "" && s.Crop == nil {
		wrong("crop_round", "crop_round requires crop")
	}
	ways := 0
	for _, set := range []bool{s.Resize != nil, s.ShortestEdge != 0, s.Height != 0, s.Tiles != nil, s.Fit != nil} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		wrong("resize", "resize, shortest_edge, height, tiles and fit exclude each other")
	}
	if s.Tiles != nil {
		s.Tiles.check(wrong)
		if s.Crop != nil || s.MultipleOf != 0 || s.MinWidth != 0 || s.Frames != 0 {
			wrong("tiles", "tiles exclude crop, multiple_of, min_width and frames")
		}
	}
	if s.Fit != nil {
		s.Fit.check(wrong)
		if s.Crop != nil || s.MultipleOf != 0 || s.MinWidth != 0 || s.Frames != 0 {
			wrong("fit", "fit excludes crop, multiple_of, min_width and frames")
		}
	}
	for _, p := range []struct {
		key  string
		pair []int
	}{{"resize", s.Resize}, {"crop", s.Crop}} {
		if p.pair != nil && (len(p.pair) != 2 || !side(p.pair[0]) || !side(p.pair[1]) || p.pair[0]*p.pair[1] > MaxPixels) {
			wrong(p.key, "bad height and width %v", p.pair)
		}
	}
	for _, v := range []struct {
		key string
		n   int
	}{{"shortest_edge", s.ShortestEdge}, {"height", s.Height}, {"max_width", s.MaxWidth}, {"min_width", s.MinWidth}, {"multiple_of", s.MultipleOf}, {"frames", s.Frames}} {
		if v.n != 0 && !side(v.n) {
			wrong(v.key, "got %d, want 1 to %d", v.n, maxSide)
		}
	}
	if s.MaxWidth != 0 && s.Height == 0 {
		wrong("max_width", "max_width requires height")
	}
	if s.Pad < 0 || s.Pad > 255 {
		wrong("pad", "got %v, want 0 to 255", s.Pad)
	}
	if s.DType == "int16" {
		wrong("dtype", "int16 is for sounds")
	}
}

func (s *Spec) checkSound(wrong func(key, format string, args ...any), oneOf func(key, v string, allowed ...string)) {
	if !isZeroPicture(s.Picture) {
		wrong("sample_rate", "keys of an image in a sound")
	}
	if s.SampleRate < minRate || s.SampleRate > maxRate {
		wrong("sample_rate", "got %d, want %d to %d", s.SampleRate, minRate, maxRate)
	}
	oneOf("mel", s.Mel, "slaney", "htk")
	oneOf("mel_norm", s.MelNorm, "slaney", "none")
	oneOf("log", s.Log, "none", "ln", "log10", "db")
	oneOf("edge", s.Edge, "zero", "reflect")
	if s.DType == "uint8" {
		wrong("dtype", "uint8 is for images")
	}
	for _, v := range []struct {
		key    string
		n, max int
	}{{"chunk", s.Chunk, maxChunk}, {"context", s.Context, maxChunk}, {"n_mels", s.NMels, maxMels}, {"window", s.Window, maxFFT}, {"n_fft", s.NFFT, maxFFT}, {"hop", s.Hop, maxFFT}} {
		if v.n < 0 || v.n > v.max {
			wrong(v.key, "got %d, want 0 to %d", v.n, v.max)
		}
	}
	if s.Context > 0 && s.Chunk == 0 {
		wrong("context", "context requires chunk")
	}
	if s.Power < 0 || s.Floor < 0 || s.Range < 0 || s.FMin < 0 || s.FMax < 0 {
		wrong("power", "got a negative number")
	}
	if s.NMels == 0 {
		if s.Span != nil {
			wrong("span", "span requires n_mels")
		}
		oneOf("layout", s.Layout, sampleLayouts...)
		return
	}
	oneOf("layout", s.Layout, melLayouts...)
	if s.Window == 0 && s.NFFT == 0 {
		wrong("window", "mel frames require window or n_fft")
	}
	if s.Window > s.nfft() {
		wrong("n_fft", "got %d, less than the window of %d", s.nfft(), s.Window)
	}
	if s.Span != nil {
		s.checkSpan(wrong, oneOf)
	}
	if top := s.fmax(); top > float64(s.SampleRate)/2 || s.FMin >= top {
		wrong("f_max", "bad bands from %v to %v Hz of a sound of %d Hz", s.FMin, top, s.SampleRate)
	}
}

func side(n int) bool { return n >= 1 && n <= maxSide }

func isZero(s Sound) bool { return s == Sound{} }

func isZeroPicture(p Picture) bool {
	return p.Resize == nil && p.Crop == nil && p.ShortestEdge == 0 && p.Height == 0 && p.MaxWidth == 0 && p.MinWidth == 0 &&
		p.MultipleOf == 0 && p.Resample == "" && p.Color == "" && p.Pad == 0 && p.CropRound == "" && p.Frames == 0 && p.Tiles == nil && p.Fit == nil
}

// channels returns how many numbers Mean and Std may have.
func (s *Spec) channels() int {
	switch {
	case s.IsSound():
		return max(s.NMels, 1)
	case s.Color == "gray":
		return 1
	}
	return 3
}

func (s *Spec) layout() string {
	switch {
	case s.Layout != "":
		return s.Layout
	case !s.IsSound():
		return "NCHW"
	case s.NMels > 0:
		return "NMT"
	}
	return "NT"
}

// Element returns the element type of the result.
func (s *Spec) Element() string {
	if s.DType == "" {
		return "fp32"
	}
	return s.DType
}

// Dims returns the sizes of the result's axes, with 0 for those that depend on
// the input.
func (s *Spec) Dims() []int {
	var dims []int
	for _, axis := range s.layout() {
		dims = append(dims, s.dim(axis))
	}
	return dims
}

func (s *Spec) dim(axis rune) int {
	h, w := s.fixed()
	switch axis {
	case 'N':
		return 1
	case 'C':
		if s.IsSound() {
			return 1
		}
		return s.channels()
	case 'H':
		return h
	case 'W':
		return w
	case 'M':
		return s.NMels
	}
	if s.Chunk > 0 && s.NMels == 0 {
		return s.Chunk + s.Context
	}
	if s.Span != nil && s.Span.Frames != "sound" {
		return s.Span.Samples / s.hop()
	}
	return 0
}

// fixed returns height and width if the spec fixes them.
func (s *Spec) fixed() (h, w int) {
	switch {
	case s.Crop != nil:
		h, w = s.Crop[0], s.Crop[1]
	case s.Resize != nil:
		h, w = s.Resize[0], s.Resize[1]
	case s.Height != 0:
		h = s.Height
	case s.Tiles != nil:
		h, w = s.Tiles.Size, s.Tiles.Size
	}
	if w > 0 {
		w = s.padded(max(w, s.MinWidth))
	}
	if h > 0 {
		h = s.padded(h)
	}
	return h, w
}

// padded rounds n up to the multiple.
func (s *Spec) padded(n int) int {
	if m := s.MultipleOf; m > 1 {
		return (n + m - 1) / m * m
	}
	return n
}
