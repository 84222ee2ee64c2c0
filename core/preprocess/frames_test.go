package preprocess_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/preprocess"
)

// moving is the output of testdata/moving.py.
type moving struct {
	W, H       int
	Animations []struct {
		Name   string
		File   []byte
		Frames [][]byte
	}
}

func loadMoving(t testing.TB) moving {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "moving.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m moving
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Every frame of an animation equals Pillow's, forwards and backwards.
func TestAnimation(t *testing.T) {
	m := loadMoving(t)
	for _, a := range m.Animations {
		f, err := preprocess.DecodeFrames(a.File)
		if err != nil {
			t.Fatal(a.Name, err)
		}
		if f.Len() != len(a.Frames) || f.W != m.W || f.H != m.H {
			t.Fatalf("%s: %d frames of %d × %d", a.Name, f.Len(), f.W, f.H)
		}
		order := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 0, 8, 8}
		for _, i := range order {
			r, err := f.At(t.Context(), i)
			if err != nil {
				t.Fatal(a.Name, i, err)
			}
			if !bytes.Equal(r.Pix, a.Frames[i]) {
				t.Errorf("%s: frame %d differs", a.Name, i)
			}
			clear(r.Pix) // owned by the caller
		}
		if want := []time.Duration{0, 100, 120, 160, 210, 710, 770, 840, 920}; f.Duration != 1010*time.Millisecond || !slices.EqualFunc(f.Times, want, func(a, b time.Duration) bool { return a == b*time.Millisecond }) {
			t.Errorf("%s: times %v, %v", a.Name, f.Times, f.Duration)
		}
		// By time: frame 4 takes half of it.
		if got := f.Chosen(4); !slices.Equal(got, []int{2, 4, 4, 7}) {
			t.Errorf("%s: %v chosen", a.Name, got)
		}
	}
}

// A frame with disposal "restore to previous" leaves the frame before it.
func TestAnimationTakenBack(t *testing.T) {
	palette := color.Palette{color.RGBA{}, color.RGBA{255, 0, 0, 255}, color.RGBA{0, 255, 0, 255}}
	block := func(r image.Rectangle, k uint8) *image.Paletted {
		m := image.NewPaletted(r, palette)
		for i := range m.Pix {
			m.Pix[i] = k
		}
		return m
	}
	g := &gif.GIF{Image: []*image.Paletted{
		block(image.Rect(0, 0, 4, 1), 1), block(image.Rect(1, 0, 3, 1), 2), block(image.Rect(3, 0, 4, 1), 2), block(image.Rect(0, 0, 4, 1), 0),
	}, Delay: make([]int, 4), Disposal: []byte{gif.DisposalNone, gif.DisposalPrevious, gif.DisposalBackground, 0}}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, g); err != nil {
		t.Fatal(err)
	}
	f, err := preprocess.DecodeFrames(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"rrrr", "rggr", "rrrg", "rrr."} {
		r, err := f.At(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for x := range 4 {
			got += map[[2]uint8]string{{255, 0}: "r", {0, 255}: "g", {0, 0}: "."}[[2]uint8(r.Pix[3*x:])]
		}
		if got != want {
			t.Errorf("frame %d is %s, want %s", i, got, want)
		}
	}
}

// y4mFile returns a video of frames × size counting bytes.
func y4mFile(header string, frames, size int) []byte {
	b := []byte(header + "\n")
	for range frames {
		b = append(b, "FRAME\n"...)
		for i := range size {
			b = append(b, byte(i*7))
		}
	}
	return b
}

// Pixels of a raw video in BT.601 (computed by hand: white, black, the
// primaries), in each sampling and range.
func TestRawVideo(t *testing.T) {
	frame := func(header string, samples ...byte) []byte {
		return append([]byte(header+"\nFRAME Ip\n"), samples...)
	}
	for name, c := range map[string]struct {
		data []byte
		want []byte
	}{
		"full 4:4:4": {frame("YUV4MPEG2 W4 H1 F25:1 C444 XCOLORRANGE=FULL",
			255, 0, 76, 150, 128, 128, 85, 44, 128, 128, 255, 21), []byte{255, 255, 255, 0, 0, 0, 254, 0, 0, 0, 255, 1}},
		"studio 4:4:4": {frame("YUV4MPEG2 W4 H1 F25:1 C444",
			235, 16, 81, 145, 128, 128, 90, 54, 128, 128, 240, 34), []byte{255, 255, 255, 0, 0, 0, 254, 0, 0, 0, 255, 1}},
		"studio 4:2:2": {frame("YUV4MPEG2 W3 H1 C422 XCOLORRANGE=LIMITED",
			81, 81, 235, 90, 128, 240, 128), []byte{254, 0, 0, 254, 0, 0, 255, 255, 255}},
		"studio 4:2:0": {frame("YUV4MPEG2 W3 H3 F0:0 A0:0 Ip",
			81, 81, 235, 81, 81, 16, 16, 235, 16, 90, 128, 128, 128, 240, 128, 128, 128),
			[]byte{254, 0, 0, 254, 0, 0, 255, 255, 255, 254, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 0, 0, 0}},
		"full gray":   {frame("YUV4MPEG2 W2 H1 Cmono XCOLORRANGE=FULL", 7, 200), []byte{7, 7, 7, 200, 200, 200}},
		"studio gray": {frame("YUV4MPEG2 W2 H1 Cmono", 16, 235), []byte{0, 0, 0, 255, 255, 255}},
	} {
		f, err := preprocess.DecodeFrames(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := f.At(t.Context(), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range r.Pix {
			if d := int(r.Pix[i]) - int(c.want[i]); d < -1 || d > 1 {
				t.Errorf("%s: %v, want %v", name, r.Pix, c.want)
				break
			}
		}
	}
}

func TestOpenFrames(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shade := func(v uint8, w int) []byte {
		var b bytes.Buffer
		m := image.NewGray(image.Rect(0, 0, w, 2))
		for i := range m.Pix {
			m.Pix[i] = v
		}
		if err := png.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for i := range 12 {
		write(fmt.Sprintf("walk/frame%d.png", i), shade(uint8(10*i), 3))
	}
	write("walk/notes.txt", []byte("none"))
	write("walk/.hidden.png", []byte("none"))
	f, err := preprocess.OpenFrames(t.Context(), filepath.Join(dir, "walk"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != 12 || f.W != 3 || f.H != 2 || len(f.Times) != 0 {
		t.Errorf("%+v", f)
	}
	picked, err := f.Pick(t.Context(), 4)
	if err != nil || len(picked) != 4 {
		t.Fatal(err)
	}
	for k, want := range []uint8{10, 40, 70, 100} {
		if picked[k].Pix[0] != want {
			t.Errorf("picked %d: %d, want %d", k, picked[k].Pix[0], want)
		}
	}
	if got := f.Chosen(16); len(got) != 16 || got[0] != 0 || got[1] != 1 || got[2] != 1 || got[15] != 11 {
		t.Errorf("%v", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}

	path := write("v.y4m", y4mFile("YUV4MPEG2 W4 H2 F30000:1001 C444", 7, 24))
	f, err = preprocess.OpenFrames(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != 7 || f.Times[3] != 100100*time.Microsecond {
		t.Errorf("%d frames, the fourth at %v", f.Len(), f.Times[3])
	}
	s := preprocess.Spec{Scale: 1.0 / 255, Picture: preprocess.Picture{Resize: []int{2, 2}, Frames: 3}}
	ts, err := s.FromFrames(t.Context(), f)
	if err != nil || len(ts) != 3 || !slices.Equal(ts[0].Shape, []int{1, 3, 2, 2}) {
		t.Errorf("%v, %v", ts, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.At(t.Context(), 0); err == nil {
		t.Error("a closed file is read")
	}

	write("odd/a.png", shade(1, 3))
	write("odd/b.png", shade(1, 4))
	f, err = preprocess.OpenFrames(t.Context(), filepath.Join(dir, "odd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pick(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "b.png: size mismatch: got 4 × 2, want 3 × 2") {
		t.Error(err)
	}
	write("empty/notes.txt", nil)
	write("video.webp", webpVideo())
	for name, want := range map[string]string{"empty": "has no images", "walk/notes.txt": "not a video", "video.webp": "unsupported animated WebP", "none": "no such file"} {
		if _, err := preprocess.OpenFrames(t.Context(), filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVideosRefused(t *testing.T) {
	m := loadMoving(t)
	valid := m.Animations[0].File
	wide := bytes.Clone(valid)
	wide[6], wide[7], wide[8], wide[9] = 255, 255, 255, 255
	narrow := bytes.Clone(valid)
	narrow[6] = 4
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "not a video"},
		"a wav":                {[]byte("RIFF????WAVE"), "not a video"},
		"an animated webp":     {webpVideo(), "unsupported animated WebP"},
		"a webp":               {webpHeader(true, 4, 4), "not a video"},
		"a head":               {valid[:10], "truncated"},
		"cut":                  {valid[:len(valid)-30], "truncated"},
		"a huge screen":        {wide, "the limit of"},
		"a frame beyond it":    {narrow, "frame 0: bounds (0,0)-(23,17) exceed the screen of 4 × 17"},
		"no frame":             {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), "no frame"},
		"no size":              {[]byte("YUV4MPEG2 W4\n"), "missing width or height"},
		"no line":              {bytes.Repeat([]byte("YUV4MPEG2"), 200), "reading the header: unterminated line"},
		"no frames":            {y4mFile("YUV4MPEG2 W4 H2", 0, 0), "no frames"},
		"ten bits":             {y4mFile("YUV4MPEG2 W4 H2 C420p10", 1, 24), "sampling"},
		"zero":                 {y4mFile("YUV4MPEG2 W0 H2", 1, 24), "bad width or height"},
		"huge":                 {y4mFile("YUV4MPEG2 W60000 H60000", 1, 24), "the limit of"},
		"beyond":               {y4mFile("YUV4MPEG2 W99999999999999999999 H2", 1, 24), "bad width or height"},
		`bad frame rate "1:0"`: {y4mFile("YUV4MPEG2 W4 H2 F1:0", 1, 12), `bad frame rate "1:0"`},
		"a frame cut short":    {y4mFile("YUV4MPEG2 W4 H2", 2, 12)[:50], "truncated"},
		"more than a frame":    {y4mFile("YUV4MPEG2 W4 H2", 2, 13), "frame 1: missing FRAME"},
	} {
		if _, err := preprocess.DecodeFrames(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A thousand frames of a few bytes, each the size of the screen.
	bomb := []byte("GIF89a\xff\x1f\xff\x1f\x00\x00\x00")
	for range 1000 {
		bomb = append(bomb, "\x2c\x00\x00\x00\x00\xff\x1f\xff\x1f\x00\x02\x01\x00\x00"...)
	}
	if _, err := preprocess.DecodeFrames(bomb); err == nil || !strings.Contains(err.Error(), "exceed the limit") {
		t.Errorf("a bomb: %v", err)
	}
	f, err := preprocess.DecodeFrames(valid)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, f.Len()} {
		if _, err := f.At(t.Context(), i); err == nil {
			t.Errorf("frame %d is there", i)
		}
	}
	for _, n := range []int{0, -1, 1 << 30} {
		if _, err := f.Pick(t.Context(), n); err == nil {
			t.Errorf("%d frames are picked", n)
		}
	}
}

// Any bytes are a video of frames of its size, or an error.
func FuzzFrames(f *testing.F) {
	for _, a := range loadMoving(f).Animations {
		f.Add(a.File)
	}
	f.Add(y4mFile("YUV4MPEG2 W3 H3 F25:1 C420jpeg XCOLORRANGE=FULL", 3, 17))
	f.Add(y4mFile("YUV4MPEG2 W4 H2 C422", 2, 16))
	f.Add(y4mFile("YUV4MPEG2 W4 H2 Cmono", 2, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := preprocess.DecodeFrames(data)
		if err != nil || v.W*v.H > 1<<16 {
			return
		}
		if v.Len() < 1 || len(v.Times) != v.Len() {
			t.Fatalf("%d frames at %d times", v.Len(), len(v.Times))
		}
		for _, i := range []int{0, min(v.Len()-1, 3), 0} {
			r, err := v.At(t.Context(), i)
			if err == nil && (r.W != v.W || r.H != v.H || len(r.Pix) != 3*r.W*r.H) {
				t.Fatalf("frame %d is %d × %d in %d bytes", i, r.W, r.H, len(r.Pix))
			}
		}
	})
}
