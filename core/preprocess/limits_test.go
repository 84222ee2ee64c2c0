package preprocess

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLimits has a value at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	sound := func(set func(s *Spec, n int)) func(n int) bool {
		return func(n int) bool {
			s := Spec{Sound: Sound{SampleRate: 16000, NMels: 64, Window: 400}}
			set(&s, n)
			return len(s.Check()) == 0
		}
	}
	picture := func(set func(s *Spec, n int)) func(n int) bool {
		return func(n int) bool {
			var s Spec
			set(&s, n)
			return len(s.Check()) == 0
		}
	}
	wav := func(channels, rate, n int) bool {
		f, err := parseFormat(slices.Concat([]byte{1, 0, byte(channels), 0}, le32(rate), le32(rate*channels), []byte{byte(channels), 0, 8, 0}))
		return err == nil && f.channels == channels && n > 0
	}
	for _, c := range []struct {
		name  string
		limit int
		ok    func(n int) bool
	}{
		{"MaxPixels", MaxPixels / 8192, func(n int) bool { return within(8192, n) == nil }},
		{"MaxPixels of one row", MaxPixels, func(n int) bool { return within(n, 1) == nil }},
		{"MaxPixels of a crop", MaxPixels / 8192, picture(func(s *Spec, n int) { s.Crop = []int{8192, n} })},
		{"maxTiles", maxTiles, picture(func(s *Spec, n int) { s.Tiles = &Tiles{Size: 8, Choose: "aspect", Most: n} })},
		{"maxLongest of a tile", maxLongest, picture(func(s *Spec, n int) { s.Tiles = &Tiles{Size: n, Choose: "aspect", Most: 1} })},
		{"maxAspect", maxAspect, func(n int) bool {
			_, _, err := (&Fit{Multiple: 28, Choose: "area", Least: 1, Most: 1 << 20}).Size(n, 1)
			return err == nil
		}},
		{"maxSide of height", maxSide, picture(func(s *Spec, n int) { s.Height = n })},
		{"maxSide of shortest_edge", maxSide, picture(func(s *Spec, n int) { s.ShortestEdge = n })},
		{"maxSide of frames", maxSide, picture(func(s *Spec, n int) { s.Frames = n })},
		{"maxSide of resize", maxSide, picture(func(s *Spec, n int) { s.Resize = []int{1, n} })},
		{"maxChunk", maxChunk, sound(func(s *Spec, n int) { s.Chunk = n })},
		{"maxChunk of context", maxChunk, sound(func(s *Spec, n int) { s.Chunk, s.Context = 1, n })},
		{"maxMels", maxMels, sound(func(s *Spec, n int) { s.NMels = n })},
		{"maxFFT of window", maxFFT, sound(func(s *Spec, n int) { s.Window = n })},
		{"maxFFT of n_fft", maxFFT, sound(func(s *Spec, n int) { s.NFFT = n })},
		{"maxFFT of hop", maxFFT, sound(func(s *Spec, n int) { s.Hop = n })},
		{"maxSpans", maxSpans, func(n int) bool {
			s := Spec{Sound: Sound{SampleRate: 16000, NMels: 1, Window: 400, Hop: 160, Span: &Span{Samples: 160, Longer: "divide"}}}
			_, err := s.FromSpan(make([]float32, 160*n))
			return err == nil
		}},
		{"maxRate", maxRate, sound(func(s *Spec, n int) { s.SampleRate = n })},
		{"maxRate of a WAV", maxRate, func(n int) bool { return wav(1, n, 1) }},
		{"maxChannels", maxChannels, func(n int) bool { return wav(n, 16000, 1) }},
		{"maxSamples", maxSamples, func(n int) bool { return !tooManySamples(n) }},
		{"maxSamples of mel bands", maxSamples / 64, func(n int) bool {
			return !(&Spec{Sound: Sound{NMels: 64, Window: 1}}).exceeds(int64(n))
		}},
		{"maxWork", maxWork / maxFFT, func(n int) bool {
			return !(&Spec{Sound: Sound{NMels: 1, Window: maxFFT}}).exceeds(int64(n))
		}},
		{"maxScanned", maxScanned / (1 << 20), func(n int) bool {
			_, err := jpegScans([]byte("\xff\xd8"+strings.Repeat("\xff\xda\x00\x02", n)), image.Config{Width: 1 << 10, Height: 1 << 10, ColorModel: color.GrayModel})
			return err == nil
		}},
		{"maxDrawn", maxDrawn / (1 << 26), func(n int) bool {
			_, err := openGIF(loopGIF(n, 1<<13))
			return err == nil
		}},
	} {
		if !c.ok(c.limit) {
			t.Errorf("%s: %d is refused", c.name, c.limit)
		}
		if c.ok(c.limit + 1) {
			t.Errorf("%s: %d is accepted", c.name, c.limit+1)
		}
	}
	for rate, want := range map[int]bool{minRate - 1: false, minRate: true} {
		s := Spec{Sound: Sound{SampleRate: rate}}
		if got := len(s.Check()) == 0; got != want || wav(1, rate, 1) != want {
			t.Errorf("minRate: %d: %v", rate, got)
		}
	}
	for v, want := range map[float32]bool{maxSample: true, -maxSample: true, 2 * maxSample: false, -2 * maxSample: false} {
		f := wavFormat{code: wavFloat, bits: 32, channels: 1, rate: 16000, block: 4}
		if _, err := f.decode(le32(int(math.Float32bits(v)))); (err == nil) != want {
			t.Errorf("maxSample: %v: %v", v, err)
		}
	}
	f := Frames{W: 1, H: 1, n: 1}
	if _, err := f.Pick(t.Context(), maxFrames+1); err == nil || !strings.Contains(err.Error(), "exceed the limit") {
		t.Errorf("maxFrames: %v", err)
	}
}

// TestFileLimits: a file that is a byte too large is not read.
func TestFileLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: files at the limits")
	}
	dir := t.TempDir()
	gif, folder := filepath.Join(dir, "a.gif"), filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		limit int64
		open  string
	}{gif: {maxAnimation, gif}, filepath.Join(folder, "1.png"): {maxPicture, folder}} {
		for n, want := range map[int64]bool{c.limit: false, c.limit + 1: true} {
			if err := os.WriteFile(path, []byte("GIF89a"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenFrames(t.Context(), c.open); err == nil || strings.Contains(err.Error(), fmt.Sprint(c.limit)) != want {
				t.Errorf("%s of %d bytes: %v", path, n, err)
			}
		}
	}
}

// loopGIF is a GIF of n frames of side × side in a few bytes each.
func loopGIF(n, side int) []byte {
	b := append([]byte("GIF89a"), byte(side), byte(side>>8), byte(side), byte(side>>8), 0, 0, 0)
	for range n {
		b = append(b, 0x2c, 0, 0, 0, 0, byte(side), byte(side>>8), byte(side), byte(side>>8), 0, 2, 0)
	}
	return append(b, 0x3b)
}

func le32(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }

// TestMaxDecoded declares maxDecoded samples in a FLAC without a frame, and one
// more: only the second is refused by the header.
func TestMaxDecoded(t *testing.T) {
	for n, want := range map[uint64]bool{maxDecoded: false, maxDecoded + 1: true} {
		info := make([]byte, 34)
		copy(info, []byte{16, 0, 16, 0}) // the smallest and the largest block
		binary.BigEndian.PutUint64(info[10:], 16000<<44|0<<41|15<<36|n)
		file := slices.Concat([]byte("fLaC\x80\x00\x00\x22"), info)
		_, err := DecodeSound(file)
		if got := err != nil && strings.Contains(err.Error(), "too many samples"); got != want {
			t.Errorf("%d samples: %v", n, err)
		}
	}
}
