package modality

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// feed is a prepared input: a tensor for every window, or samples that are
// converted window by window.
type feed struct {
	tensor  runtimes.Tensor
	spec    *preprocess.Spec // of a sound
	windows [][]float32
	spans   []*preprocess.Tensor // of the windows, if they are prepared together
	samples int                  // of the sound at the spec's rate
	tail    []float32            // the last samples, context of the next run
	shape   func(preprocess.Tensor) runtimes.Tensor
}

// window returns the tensor of window i.
func (f *feed) window(i int) (runtimes.Tensor, error) {
	if f.spec == nil {
		return f.tensor, nil
	}
	if len(f.windows) == 1 {
		i = 0
	}
	if f.spans != nil {
		return f.shape(*f.spans[i]), nil
	}
	t, err := f.spec.FromSamples(f.windows[i])
	if err != nil {
		return runtimes.Tensor{}, err
	}
	return f.shape(*t), nil
}

// seconds returns the duration of all windows.
func (f *feed) seconds() float64 {
	n := f.samples
	if f.spec.Chunk > 0 {
		n = len(f.windows) * f.spec.Chunk
	}
	return float64(n) / float64(f.spec.SampleRate)
}

// prepare prepares an input. assumed describes an assumption, if any.
func (s *Session) prepare(ctx context.Context, name string, in Input) (f *feed, assumed string, err error) {
	set := 0
	for _, present := range []bool{in.File != "", in.Data != nil, in.Tensor != nil, in.Frames != nil, in.Sound != nil} {
		if present {
			set++
		}
	}
	if set != 1 {
		return nil, "", errors.New("want exactly one of a file, bytes, a tensor, images and samples")
	}
	switch {
	case in.Tensor != nil:
		return &feed{tensor: *in.Tensor}, "", in.Tensor.Check()
	case in.Frames != nil:
		return s.video(ctx, name, in.Frames)
	case in.Sound != nil:
		return s.samples(name, in.Sound)
	}
	data := in.Data
	if in.File != "" {
		if data, err = fsx.ReadFile(in.File, s.opt.MaxBytes); err != nil {
			return nil, "", err
		}
	} else if int64(len(data)) > s.opt.MaxBytes {
		return nil, "", fmt.Errorf("%d bytes, limit %d", len(data), s.opt.MaxBytes)
	}
	switch {
	case npy.Is(data):
		a, err := npy.Decode(data)
		if err != nil {
			return nil, "", err
		}
		return &feed{tensor: FromArray(a)}, "", nil
	case preprocess.IsSound(data):
		return s.sound(name, data)
	case preprocess.IsImage(data):
		return s.picture(ctx, name, data)
	}
	return nil, "", errors.New("unrecognized format: want an image (PNG, JPEG, GIF, WebP, BMP), a sound (WAV, FLAC, MP3, Ogg Vorbis) or an array (.npy)")
}

// picture prepares an image by the manifest or, if the manifest does not describe
// the input and its shape fits images only, by its shape.
func (s *Session) picture(ctx context.Context, name string, data []byte) (*feed, string, error) {
	spec, assumed, err := s.spec(name, false)
	if err != nil {
		return nil, "", err
	}
	t, err := spec.FromImage(ctx, data)
	if err != nil {
		return nil, "", err
	}
	return &feed{tensor: s.batched(name)(*t)}, assumed, nil
}

// video prepares frames: those of a video for an input that takes all of them, or
// one.
func (s *Session) video(ctx context.Context, name string, frames []*preprocess.Raster) (*feed, string, error) {
	spec, assumed, err := s.spec(name, false)
	if err != nil {
		return nil, "", err
	}
	var all runtimes.Tensor
	for i, r := range frames {
		t, err := spec.FromRaster(ctx, r)
		if err != nil {
			return nil, "", fmt.Errorf("frame %d: %w", i, err)
		}
		one := s.batched(name)(*t)
		if i == 0 && len(frames) == 1 {
			return &feed{tensor: one}, assumed, nil
		}
		if n := len(one.Shape); n == 4 && one.Shape[0] == 1 {
			one.Shape = one.Shape[1:]
		}
		switch {
		case i == 0:
			all = runtimes.Tensor{Type: one.Type, Shape: append([]int64{0}, one.Shape...)}
		case !slices.Equal(all.Shape[1:], one.Shape):
			return nil, "", fmt.Errorf("shape mismatch of frame %d: got %v, want %v as in the first", i, one.Shape, all.Shape[1:])
		}
		all.Data = append(all.Data, one.Data...)
		all.Shape[0]++
	}
	return &feed{tensor: all}, assumed, nil
}

// Takes reports whether an encoder takes all frames of a video in one call, and how
// many frames; 0 if the manifest has no number.
func Takes(m *modules.Manifest) (all bool, frames int) {
	for _, p := range m.FreeInputs() {
		if spec, ok := m.Preprocess[p.Name]; ok && !spec.IsSound() {
			frames = max(frames, spec.Frames)
		}
		all = all || len(p.Shape) == 4
	}
	return all, frames
}

// sound cuts a sound into windows.
func (s *Session) sound(name string, data []byte) (*feed, string, error) {
	w, err := preprocess.DecodeSound(data)
	if err != nil {
		return nil, "", err
	}
	return s.samples(name, w)
}

// samples cuts a decoded sound into windows.
func (s *Session) samples(name string, w *preprocess.Wave) (*feed, string, error) {
	spec, assumed, err := s.spec(name, true)
	if err != nil {
		return nil, "", err
	}
	if spec.SampleRate == 0 {
		spec.SampleRate = w.Rate
		assumed = fmt.Sprintf("input %q takes samples at the file's own rate, %d Hz", name, w.Rate)
	}
	samples, err := spec.Samples(w)
	if err != nil {
		return nil, "", err
	}
	if spec.Span != nil {
		all, err := spec.FromSpan(samples)
		return &feed{spec: &spec, samples: len(samples), windows: make([][]float32, len(all)), spans: all, shape: s.batched(name)}, assumed, err
	}
	before := s.stream.tails[name]
	f := &feed{spec: &spec, samples: len(samples), windows: spec.Windows(samples, before), shape: s.batched(name)}
	if last := f.windows[len(f.windows)-1]; spec.Context > 0 {
		f.tail = slices.Clone(last[len(last)-min(spec.Context, len(last)):])
	}
	return f, assumed, nil
}

// spec returns how an input is prepared, by the manifest or by its only possibility.
func (s *Session) spec(name string, sound bool) (preprocess.Spec, string, error) {
	what := map[bool]string{false: "an image", true: "a sound"}
	if s.m == nil {
		return preprocess.Spec{}, "", fmt.Errorf("cannot prepare %s without the module's manifest: pass a .npy file", what[sound])
	}
	if spec, ok := s.m.Preprocess[name]; ok {
		if spec.IsSound() != sound {
			return spec, "", fmt.Errorf("got %s, want %s", what[sound], what[!sound])
		}
		return spec, "", nil
	}
	elem, dims, err := s.portType(name)
	if err != nil {
		return preprocess.Spec{}, "", err
	}
	if sound {
		return s.obviousSound(name, elem, dims)
	}
	return obviousPicture(name, elem, dims)
}

// portType returns the type and the sizes of an input, with 0 for open sizes.
func (s *Session) portType(name string) (runtimes.Elem, []int64, error) {
	var dims []int64
	if t, ok := s.inputs[name]; ok && t.Ranked {
		for _, d := range t.Dims {
			size := int64(0)
			if d.Param == "" && d.Value > 0 {
				size = d.Value
			}
			dims = append(dims, size)
		}
		return runtimes.ElemOf(t.DType), dims, nil
	}
	i := slices.IndexFunc(s.m.Inputs, func(p abi.Port) bool { return p.Name == name })
	if i < 0 {
		return "", nil, errors.New("no description in the manifest")
	}
	for _, d := range s.m.Inputs[i].Shape {
		dims = append(dims, d.Size) // 0 for a name
	}
	return runtimes.Elem(s.m.Inputs[i].DType), dims, nil
}

// obviousPicture returns the spec of an input that can only be an image: [N,3,H,W]
// or [N,1,H,W] of floats, [N,H,W,3] of bytes or floats, with or without N.
func obviousPicture(name string, elem runtimes.Elem, dims []int64) (preprocess.Spec, string, error) {
	spec := preprocess.Spec{DType: string(elem)}
	rank := len(dims)
	channels := func(i int) int64 {
		if i >= 0 && i < rank && (dims[i] == 3 || dims[i] == 1) {
			return dims[i]
		}
		return 0
	}
	var h, w, c int64
	switch {
	case rank != 3 && rank != 4, elem != runtimes.Float32 && elem != runtimes.Float16 && elem != runtimes.Uint8:
	case channels(rank-3) == 3 || channels(rank-3) == 1 && channels(rank-1) == 0:
		spec.Layout, c, h, w = "NCHW", channels(rank-3), dims[rank-2], dims[rank-1]
	case channels(rank-1) != 0:
		spec.Layout, c, h, w = "NHWC", channels(rank-1), dims[rank-3], dims[rank-2]
	}
	if c == 0 {
		return spec, "", fmt.Errorf("cannot prepare an image for an input of %s %v: describe it in preprocess", elem, shown(dims))
	}
	if rank == 3 {
		spec.Layout = spec.Layout[1:]
	}
	if c == 1 {
		spec.Color = "gray"
	}
	assumed := fmt.Sprintf("input %q takes an image as %s, %s", name, spec.Layout, map[bool]string{true: "gray", false: "RGB"}[c == 1])
	switch {
	case h > 0 && w > 0:
		spec.Resize = []int{int(h), int(w)}
		assumed += fmt.Sprintf(", resized to %d × %d", h, w)
	case h > 0:
		spec.Height = int(h)
		assumed += fmt.Sprintf(", of height %d", h)
	}
	if elem == runtimes.Uint8 {
		assumed += ", values 0 to 255"
	} else {
		spec.Scale = 1.0 / 255
		assumed += ", values 0 to 1"
	}
	if faults := spec.Check(); len(faults) > 0 {
		return spec, "", faults[0]
	}
	return spec, assumed, nil
}

// obviousSound returns the spec of an input that can only be samples: [N,S] or [S].
func (s *Session) obviousSound(name string, elem runtimes.Elem, dims []int64) (preprocess.Spec, string, error) {
	spec := preprocess.Spec{Layout: "NT", DType: string(elem)}
	if len(dims) == 1 {
		spec.Layout = "T"
	}
	fits := len(dims) == 1 || len(dims) == 2 && dims[0] <= 1
	if !fits || elem != runtimes.Float32 && elem != runtimes.Float16 || dims[len(dims)-1] != 0 {
		return spec, "", fmt.Errorf("cannot prepare a sound for an input of %s %v: describe it in preprocess", elem, shown(dims))
	}
	for key, figures := range map[string]interface{ Int(string) (int64, bool) }{"params": s.m.Params, "caps": s.m.Caps} {
		if n, ok := figures.Int("sample_rate"); ok {
			spec.SampleRate = int(n)
			if faults := spec.Check(); len(faults) > 0 {
				return spec, "", faults[0]
			}
			return spec, fmt.Sprintf("input %q takes samples at %d Hz (%s.sample_rate)", name, n, key), nil
		}
	}
	return spec, "", nil
}

// shown formats sizes, with ? for open ones.
func shown(dims []int64) []string {
	var out []string
	for _, d := range dims {
		if d == 0 {
			out = append(out, "?")
			continue
		}
		out = append(out, fmt.Sprint(d))
	}
	return out
}

// batched returns a function that adds or removes the leading 1 of a prepared tensor
// to match the file's input.
func (s *Session) batched(name string) func(preprocess.Tensor) runtimes.Tensor {
	in, inFile := s.inputs[name]
	return func(t preprocess.Tensor) runtimes.Tensor {
		out := runtimes.Tensor{Type: runtimes.Elem(t.DType), Data: t.Data}
		for _, d := range t.Shape {
			out.Shape = append(out.Shape, int64(d))
		}
		if !inFile || !in.Ranked {
			return out
		}
		switch rank := len(in.Dims); {
		case rank == len(out.Shape)+1 && (in.Dims[0].Value == 1 || in.Dims[0].Value == onnx.Unknown || in.Dims[0].Param != ""):
			out.Shape = append([]int64{1}, out.Shape...)
		case rank == len(out.Shape)-1 && out.Shape[0] == 1:
			out.Shape = out.Shape[1:]
		}
		return out
	}
}

// arrays maps NumPy's names to element types.
var arrays = map[string]runtimes.Elem{
	"f8": runtimes.Float64, "f4": runtimes.Float32, "f2": runtimes.Float16, "b1": runtimes.Bool,
	"i8": runtimes.Int64, "i4": runtimes.Int32, "i2": runtimes.Int16, "i1": runtimes.Int8,
	"u8": runtimes.Uint64, "u4": runtimes.Uint32, "u2": runtimes.Uint16, "u1": runtimes.Uint8,
}

// FromArray converts an array to a tensor.
func FromArray(a *npy.Array) runtimes.Tensor {
	t := runtimes.Tensor{Type: arrays[a.Type], Data: a.Data}
	for _, d := range a.Shape {
		t.Shape = append(t.Shape, int64(d))
	}
	return t
}

// ToArray converts a tensor to an array. NumPy has no bf16, which becomes fp32.
func ToArray(t runtimes.Tensor) (*npy.Array, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	a := &npy.Array{Data: t.Data}
	for _, d := range t.Shape {
		a.Shape = append(a.Shape, int(d))
	}
	if t.Type == runtimes.BFloat16 {
		a.Type, a.Data = "f4", make([]byte, 0, 2*len(t.Data))
		for i := 0; i < len(t.Data); i += 2 {
			a.Data = append(a.Data, 0, 0, t.Data[i], t.Data[i+1])
		}
		return a, nil
	}
	for name, elem := range arrays {
		if elem == t.Type {
			a.Type = name
		}
	}
	return a, nil
}
