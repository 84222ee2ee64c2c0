package preprocess_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// pngHeader returns a PNG header without data.
func pngHeader(w, h uint32) []byte {
	body := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), w), h)
	body = append(body, 8, 2, 0, 0, 0)
	b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	return binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE(body))
}

// webpHeader returns a WebP header of one lossless frame.
func webpHeader(extended bool, w, h uint32) []byte {
	le := binary.LittleEndian
	frame := le.AppendUint32([]byte{0x2f}, (w-1)|(h-1)<<14)
	frame = append(frame, 0, 0, 0)
	var chunks []byte
	if extended {
		chunks = append(le.AppendUint32([]byte("VP8X"), 10), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	chunks = append(le.AppendUint32(append(chunks, "VP8L"...), uint32(len(frame))), frame...)
	return append(append(le.AppendUint32([]byte("RIFF"), uint32(4+len(chunks))), "WEBP"...), chunks...)
}

// webpVideo returns an animated WebP without its frames.
func webpVideo() []byte {
	chunks := "VP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00ICCP\x01\x00\x00\x00x\x00ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(4+len(chunks))), "WEBP"+chunks...)
}

func TestPicturesRefused(t *testing.T) {
	var valid bytes.Buffer
	if err := png.Encode(&valid, image.NewRGBA(image.Rect(0, 0, 9, 9))); err != nil {
		t.Fatal(err)
	}
	bmp := append([]byte("BM????\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00"), 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 1, 0, 24, 0)
	bmp = append(bmp, make([]byte, 24)...)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":                    {nil, "not a PNG"},
		"text":                       {[]byte("hello, hello, hello"), "not a PNG"},
		"svg":                        {[]byte("<svg xmlns='x'/>"), "not a PNG"},
		"a hundred megapixels":       {pngHeader(10000, 10000), "exceeds the limit"},
		"maximum size":               {pngHeader(math.MaxInt32, math.MaxInt32), ""},
		"a webp of 268 megapixels":   {webpHeader(false, 16384, 16384), "exceeds the limit"},
		"a webp with a false header": {webpHeader(true, 16384, 16384), "exceeds the limit"},
		"an animated webp":           {webpVideo(), "unsupported animated WebP"},
		"a webp of chunks too large": {append(webpVideo()[:12], "ICCP\xff\xff\xff\xff"...), "header"},
		"a bmp of many":              {bmp, ""},
		"cut":                        {valid.Bytes()[:40], "reading the image"},
		"one byte wrong":             {bytes.Replace(valid.Bytes(), []byte("IDAT"), []byte("IDAU"), 1), "reading the image"},
		"a gif without a frame":      {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), "reading the image"},
		"a jpeg without a picture":   {[]byte("\xff\xd8\xff\xd9"), "header"},
		"a jpeg with endless filler": {append([]byte("\xff\xd8"), bytes.Repeat([]byte{0xff}, 100)...), "header"},
	} {
		if _, err := preprocess.DecodeImage(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := preprocess.DecodeImage([]byte("x")); !errors.Is(err, preprocess.ErrFormat) {
		t.Error(err)
	}
}

// fleeting is a context that is canceled after some calls of Err.
type fleeting struct {
	context.Context
	looks int
}

func (f *fleeting) Err() error {
	if f.looks--; f.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A cancellation stops the decoding and preparation of an image or a video.
func TestGivenUp(t *testing.T) {
	noise := image.NewNRGBA64(image.Rect(0, 0, 40, 60))
	for i := range noise.Pix {
		noise.Pix[i] = uint8(i * i * 7919 >> 5)
	}
	var still, moving bytes.Buffer
	if err := png.Encode(&still, noise); err != nil {
		t.Fatal(err)
	}
	grid := image.NewPaletted(image.Rect(0, 0, 60, 60), color.Palette{color.Black, color.White})
	for i := range grid.Pix {
		grid.Pix[i] = uint8(i * i * 7919 >> 5 & 1)
	}
	if err := gif.EncodeAll(&moving, &gif.GIF{Image: []*image.Paletted{grid, grid}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.png"), still.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := preprocess.Spec{Picture: preprocess.Picture{Resize: []int{8, 8}, Frames: 2}}
	for name, c := range map[string]struct {
		use  func(ctx context.Context) error
		most int // minimum number of checks of the context
	}{
		"a picture": {func(ctx context.Context) error { _, err := s.FromImage(ctx, still.Bytes()); return err }, 60 + 10},
		"a raster": {func(ctx context.Context) error {
			_, err := s.FromRaster(ctx, &preprocess.Raster{W: 1, H: 1, C: 3, Pix: make([]byte, 3)})
			return err
		}, 2},
		"a video": {func(ctx context.Context) error {
			f, err := preprocess.DecodeFrames(moving.Bytes())
			if err == nil {
				_, err = s.FromFrames(ctx, f)
			}
			return err
		}, 2 * (2 + 2)},
		"a folder": {func(ctx context.Context) error {
			f, err := preprocess.OpenFrames(ctx, dir)
			if err == nil {
				_, err = f.Pick(ctx, 2)
			}
			return err
		}, 2 * (60 + 10)},
	} {
		looks := 0
		for ; ; looks++ {
			err := c.use(&fleeting{t.Context(), looks})
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, canceled after %d checks: %v", name, looks, err)
			}
		}
		if looks < c.most {
			t.Errorf("%s was looked at %d times, want %d", name, looks, c.most)
		}
	}
}

// Results are limited as well.
func TestResultsBounded(t *testing.T) {
	line := &preprocess.Raster{W: 60000, H: 1, C: 3, Pix: make([]byte, 180000)}
	for name, s := range map[string]preprocess.Spec{
		"edge":   {Picture: preprocess.Picture{ShortestEdge: 224}},
		"height": {Picture: preprocess.Picture{Height: 48}},
		"padded": {Picture: preprocess.Picture{MinWidth: 65000, MultipleOf: 65000}},
		"rows":   {Picture: preprocess.Picture{Resize: []int{2, 60000}}},
	} {
		r := line
		if name == "rows" {
			r = &preprocess.Raster{W: 1, H: 60000, C: 3, Pix: make([]byte, 180000)}
		}
		if _, err := s.FromRaster(t.Context(), r); err == nil || !strings.Contains(err.Error(), "exceeds the limit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := preprocess.Spec{Picture: preprocess.Picture{Height: 48, MaxWidth: 320}}
	if got, err := s.FromRaster(t.Context(), line); err != nil || got.Shape[3] != 320 {
		t.Errorf("squeezed: %v, %v", got, err)
	}
}

// sound returns a WAVE file of its chunks.
func sound(chunks ...[]byte) []byte {
	body := bytes.Join(chunks, nil)
	return append(append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(4+len(body))), "WAVE"...), body...)
}

func format(code, channels uint16, rate uint32, bits uint16) []byte {
	le := binary.LittleEndian
	b := append([]byte("fmt "), 16, 0, 0, 0)
	b = le.AppendUint32(le.AppendUint16(le.AppendUint16(b, code), channels), rate)
	b = le.AppendUint32(b, rate*uint32(channels)*uint32(bits)/8)
	return le.AppendUint16(le.AppendUint16(b, channels*bits/8), bits)
}

func samples(size uint32, b ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte("data"), size), b...)
}

func TestSoundsRefused(t *testing.T) {
	nan, inf := make([]byte, 4), make([]byte, 8)
	binary.LittleEndian.PutUint32(nan, math.Float32bits(float32(math.NaN())))
	binary.LittleEndian.PutUint64(inf, math.Float64bits(math.Inf(1)))
	good := format(1, 1, 16000, 16)
	wide := format(1, 1, 16000, 16)
	wide[20] = 7 // the block size
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "not a RIFF WAVE file"},
		"no chunks":            {sound(), "missing samples"},
		"no samples chunk":     {sound(good), "missing samples"},
		"zero samples":         {sound(good, samples(0)), "empty sound"},
		"samples first":        {sound(samples(2, 0, 0)), "before the fmt"},
		"a huge header":        {sound(good, samples(1<<31, 0, 0)), "left"},
		"truncated":            {sound(good, samples(3, 0, 0, 0)), "truncated"},
		"no number":            {sound(format(3, 1, 16000, 32), samples(4, nan...)), "bad sample 0: NaN"},
		"no end":               {sound(format(3, 1, 16000, 64), samples(8, inf...)), "bad sample 0: +Inf"},
		"two formats":          {sound(good, good, samples(2, 0, 0)), "duplicate fmt chunk"},
		"compressed":           {sound(format(2, 1, 16000, 4), samples(2, 0, 0)), "format 2"},
		"no channels":          {sound(format(1, 0, 16000, 16), samples(2, 0, 0)), "bad channel count: got 0, want 1 to 64"},
		"many channels":        {sound(format(1, 65, 16000, 16), samples(2, 0, 0)), "bad channel count: got 65, want 1 to 64"},
		"no rate":              {sound(format(1, 1, 0, 16), samples(2, 0, 0)), "bad sample rate: got 0, want 1000 to 384000"},
		"too high a rate":      {sound(format(1, 1, 4000000000, 16), samples(2, 0, 0)), "bad sample rate"},
		"another block":        {sound(wide, samples(2, 0, 0)), "blocks of 7"},
		"a short fmt":          {sound([]byte("fmt \x02\x00\x00\x00\x01\x00")), "fmt chunk of 2"},
		"an unknown subformat": {sound(append([]byte("fmt "), append([]byte{40, 0, 0, 0}, append(format(0xfffe, 1, 16000, 16)[8:], make([]byte, 24)...)...)...)), "extensible"},
	} {
		if _, err := preprocess.DecodeWAV(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A length unknown at the time of writing, and unknown chunks.
	w, err := preprocess.DecodeWAV(sound([]byte("LIST\x03\x00\x00\x00abc\x00"), good, samples(math.MaxUint32, 0, 64, 0, 192)))
	if err != nil || len(w.Samples) != 2 || w.Samples[0] != 0.5 || w.Samples[1] != -0.5 {
		t.Errorf("streamed: %+v, %v", w, err)
	}
	// As SoX and espeak-ng write it.
	if w, err := preprocess.DecodeWAV(sound(good, samples(1<<31-1<<12, 0, 64, 0, 192))); err != nil || len(w.Samples) != 2 {
		t.Errorf("piped: %+v, %v", w, err)
	}
}

// A sound is recognized by its bytes, not its name.
func TestDecodeSound(t *testing.T) {
	wav := preprocess.EncodeWAV(&preprocess.Wave{Rate: 8000, Samples: []float32{0, 0.25}})
	flac, err := os.ReadFile(filepath.Join("codec", "testdata", "sounds.json"))
	var g struct{ Sounds []struct{ File []byte } }
	if err == nil {
		err = json.Unmarshal(flac, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]int{-1: 2, 0: 3360} {
		data := wav
		if i >= 0 {
			data = g.Sounds[i].File
		}
		if w, err := preprocess.DecodeSound(data); err != nil || len(w.Samples) != want || !preprocess.IsSound(data) {
			t.Errorf("sound %d: %v", i, err)
		}
	}
	for _, data := range [][]byte{nil, []byte("GIF89a"), pngHeader(3, 3)} {
		if _, err := preprocess.DecodeSound(data); !errors.Is(err, preprocess.ErrNoSound) || preprocess.IsSound(data) {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := preprocess.DecodeSound([]byte("RIFF\x00\x00\x00\x00WAVE")); err == nil || errors.Is(err, preprocess.ErrNoSound) {
		t.Error(err)
	}
}

// A written sound is read back, clamped.
func TestEncodeWAV(t *testing.T) {
	w, err := preprocess.DecodeWAV(preprocess.EncodeWAV(&preprocess.Wave{Rate: 8000, Samples: []float32{0, 0.25, 2, -2, float32(math.NaN())}}))
	if err != nil || w.Rate != 8000 {
		t.Fatal(err)
	}
	for i, want := range []float32{0, 0.25, 32767.0 / 32768, -1, -1} {
		if w.Samples[i] != want {
			t.Errorf("sample %d is %v, want %v", i, w.Samples[i], want)
		}
	}
}

// Windows overlap by the context, and earlier samples precede a stream's next
// part.
func TestWindows(t *testing.T) {
	s := preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Chunk: 3, Context: 2}}
	got := s.Windows([]float32{1, 2, 3, 4}, nil)
	want := [][]float32{{0, 0, 1, 2, 3}, {2, 3, 4, 0, 0}}
	equal := func(got, want [][]float32) {
		t.Helper()
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if !bytes.Equal(g, w) {
			t.Errorf("%s, want %s", g, w)
		}
	}
	equal(got, want)
	equal(s.Windows([]float32{7, 8, 9}, []float32{4, 5, 6}), [][]float32{{5, 6, 7, 8, 9}})
	equal(s.Windows([]float32{7, 8, 9}, []float32{6}), [][]float32{{0, 6, 7, 8, 9}})
	s.Chunk, s.Context = 0, 0
	equal(s.Windows([]float32{7}, nil), [][]float32{{7}})
}

func TestCheck(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		spec preprocess.Spec
		keys string
	}{
		"nothing":         {preprocess.Spec{}, ""},
		"layout":          {preprocess.Spec{Layout: "NT"}, "layout"},
		"dtype":           {preprocess.Spec{DType: "int4"}, "dtype"},
		"infinite":        {preprocess.Spec{Scale: inf}, "scale"},
		"std":             {preprocess.Spec{Std: []float64{0}}, "std"},
		"channels":        {preprocess.Spec{Mean: []float64{1, 2}}, "mean"},
		"gray channels":   {preprocess.Spec{Std: []float64{1, 2, 3}, Picture: preprocess.Picture{Color: "gray"}}, "std"},
		"two sizes":       {preprocess.Spec{Picture: preprocess.Picture{Resize: []int{2, 2}, Height: 4}}, "resize"},
		"too large":       {preprocess.Spec{Picture: preprocess.Picture{Resize: []int{65536, 65536}}}, "resize"},
		"negative":        {preprocess.Spec{Picture: preprocess.Picture{Crop: []int{-1, 4}}}, "crop"},
		"max width":       {preprocess.Spec{Picture: preprocess.Picture{MaxWidth: 4}}, "max_width"},
		"filter":          {preprocess.Spec{Picture: preprocess.Picture{Resample: "area", Color: "hsv", Pad: 256}}, "resample color pad"},
		"both":            {preprocess.Spec{Picture: preprocess.Picture{Height: 4}, Sound: preprocess.Sound{SampleRate: 16000}}, "sample_rate"},
		"sound of none":   {preprocess.Spec{Sound: preprocess.Sound{Chunk: 4}}, "sample_rate"},
		"rate":            {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 5}}, "sample_rate"},
		"context":         {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Context: 4}}, "context"},
		"samples as mel":  {preprocess.Spec{Layout: "NMT", Sound: preprocess.Sound{SampleRate: 16000}}, "layout"},
		"no window":       {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, NMels: 4}}, "window"},
		"wide window":     {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, NMels: 4, Window: 9, NFFT: 8}}, "n_fft"},
		"bands":           {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, NMels: 4, Window: 9, FMin: 9000}}, "f_max"},
		"words":           {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Mel: "x", MelNorm: "x", Log: "x", Edge: "x"}}, "mel mel_norm log edge"},
		"negative chunk":  {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Chunk: -1}}, "chunk"},
		"negative power":  {preprocess.Spec{Sound: preprocess.Sound{SampleRate: 16000, Power: -1}}, "power"},
		"bytes of sounds": {preprocess.Spec{DType: "uint8", Sound: preprocess.Sound{SampleRate: 16000}}, "dtype"},
	} {
		var keys []string
		for _, f := range c.spec.Check() {
			keys = append(keys, f.Key)
			if !strings.HasPrefix(f.Error(), f.Key+": ") {
				t.Error(f)
			}
		}
		if got := strings.Join(keys, " "); got != c.keys {
			t.Errorf("%s: faults at %q, want %q", name, got, c.keys)
		}
	}
}

// seeds adds files of each format.
func seeds(f *testing.F) {
	m := image.NewPaletted(image.Rect(0, 0, 5, 4), color.Palette{color.RGBA{1, 2, 3, 255}, color.RGBA{200, 100, 0, 255}})
	for _, encode := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return png.Encode(b, m) },
		func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) },
		func(b *bytes.Buffer) error { return gif.Encode(b, m, nil) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add(webpHeader(true, 3, 3))
	var g goldens
	data, err := os.ReadFile(filepath.Join("testdata", "goldens.json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range g.Pictures {
		if len(c.File) < 600 {
			f.Add(c.File)
		}
	}
}

// Any bytes are an image within the limits, or an error.
func FuzzImage(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		// Large images of few bytes are valid and slow.
		if c, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && c.Width*c.Height > 1<<20 {
			return
		}
		r, err := preprocess.DecodeImage(data)
		if err != nil {
			return
		}
		if r.W < 1 || r.H < 1 || r.C != 3 || len(r.Pix) != r.W*r.H*3 {
			t.Fatalf("%d × %d × %d in %d bytes", r.W, r.H, r.C, len(r.Pix))
		}
	})
}

// Any bytes are a sound of finite samples, or an error.
func FuzzWAV(f *testing.F) {
	f.Add(sound(format(1, 1, 16000, 16), samples(4, 1, 2, 3, 4)))
	f.Add(sound(format(3, 2, 8000, 32), samples(8, 0, 0, 128, 63, 0, 0, 128, 191)))
	f.Add(sound(format(1, 2, 44100, 24), samples(math.MaxUint32, 1, 2, 3, 4, 5, 6)))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := preprocess.DecodeWAV(data)
		if err != nil {
			return
		}
		if len(w.Samples) == 0 || w.Rate < 1000 {
			t.Fatalf("%d samples at %d", len(w.Samples), w.Rate)
		}
		for i, v := range w.Samples {
			if v != v || math.IsInf(float64(v), 0) {
				t.Fatalf("sample %d is %v", i, v)
			}
		}
	})
}
