package preprocess_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// cost is the cost of one file.
type cost struct {
	err    error
	took   time.Duration
	memory uint64 // bytes allocated, including freed ones
}

// errCrashed marks a panic, which is always wrong.
var errCrashed = errors.New("crashed")

// measureCost measures a reader of hostile bytes.
func measureCost(read func() error) (c cost) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	func() {
		defer func() {
			if p := recover(); p != nil {
				c.err = fmt.Errorf("%w: %v", errCrashed, p)
			}
		}()
		c.err = read()
	}()
	c.took = time.Since(begin)
	runtime.ReadMemStats(&after)
	c.memory = after.TotalAlloc - before.TotalAlloc
	return c
}

// Limits of one file, in bytes and time. An image of 64 million pixels of 16
// bits and four channels has 512 MiB, and its bytes a third of that; four
// frames of a video of as many pixels are 192 MiB each, one after the other.
// The time limit is many times the time on a slow idle machine.
const (
	mostMemory = 5 << 28
	mostTime   = 60 * time.Second
)

// judge checks a file's cost, and that its error is one clear line.
func (c cost) judge(t *testing.T, what string) {
	t.Helper()
	if errors.Is(c.err, errCrashed) || c.memory > mostMemory || c.took > mostTime {
		t.Errorf("%s: %v, %d bytes, %v", what, c.err, c.memory, c.took)
	}
	if c.err == nil {
		return
	}
	if text := c.err.Error(); len(text) < 8 || len(text) > 400 || strings.ContainsAny(text, "\n\x00") || !utf8.ValidString(text) {
		t.Errorf("%s: unclear: %q", what, text)
	}
}

// tally counts the results of many files.
type tally struct {
	read, refused int
	slowest       time.Duration
	memory        uint64
	why           map[string]int // first words of errors
}

func (a *tally) add(c cost) {
	a.slowest, a.memory = max(a.slowest, c.took), max(a.memory, c.memory)
	if c.err == nil {
		a.read++
		return
	}
	a.refused++
	if a.why == nil {
		a.why = map[string]int{}
	}
	words := strings.Fields(c.err.Error())
	a.why[strings.Join(words[:min(4, len(words))], " ")]++
}

// usePicture does what mm does with an image file.
func usePicture(data []byte) error {
	spec := preprocess.Spec{Picture: preprocess.Picture{Resize: []int{64, 64}}, Scale: 1.0 / 255}
	x, err := spec.FromImage(context.Background(), data)
	if err == nil {
		err = finite(x)
	}
	return err
}

// useVideo does what mm does with a video file.
func useVideo(data []byte) error {
	v, err := preprocess.DecodeFrames(data)
	if err != nil {
		return err
	}
	defer v.Close()
	spec := preprocess.Spec{Picture: preprocess.Picture{Resize: []int{64, 64}}}
	spec.Frames = 4
	_, err = spec.FromFrames(context.Background(), v)
	return err
}

// useSound does what mm does with a sound file: samples and mel bands.
func useSound(data []byte) error {
	w, err := preprocess.DecodeSound(data)
	if err != nil {
		return err
	}
	for _, spec := range []preprocess.Spec{
		{Sound: preprocess.Sound{SampleRate: 16000, Normalize: true}},
		{Sound: preprocess.Sound{SampleRate: 16000, NMels: 8, NFFT: 400, Hop: 160}},
	} {
		samples, err := spec.Samples(w)
		if err != nil {
			return err
		}
		if len(samples) > 1<<20 {
			samples = samples[:1<<20]
		}
		x, err := spec.FromSamples(samples)
		if err != nil {
			return err
		}
		if err := finite(x); err != nil {
			return err
		}
	}
	return nil
}

var errInfinite = errors.New("result is not finite")

// finite checks the numbers of an fp32 tensor.
func finite(x *preprocess.Tensor) error {
	for i := 0; i+4 <= len(x.Data); i += 4 {
		if v := float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Data[i:]))); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: element %d is %v", errInfinite, i/4, v)
		}
	}
	return nil
}

// hostileSeeds returns valid files of every supported format, to be damaged.
func hostileSeeds(t *testing.T) (pictures, videos, sounds map[string][]byte) {
	t.Helper()
	var g goldens
	read := func(name string, v any) {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("testdata/goldens.json", &g)
	pictures, videos, sounds = map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	for _, c := range g.Pictures {
		if strings.HasPrefix(c.Name, "turned") || c.Name == "palette" || c.Name == "gif" || c.Name == "bmp" || c.Name == "transparent" || c.Name == "line of text" {
			pictures[c.Name] = c.File
		}
	}
	for _, w := range g.Waves {
		sounds[w.Name] = w.File
	}
	pictures["progressive"] = scans(24, 16, 3)
	for _, a := range loadMoving(t).Animations {
		videos[a.Name] = a.File
	}
	videos["y4m 420"] = y4mFile("YUV4MPEG2 W3 H3 F25:1 C420jpeg XCOLORRANGE=FULL", 3, 17)
	videos["y4m 422"] = y4mFile("YUV4MPEG2 W4 H2 C422", 2, 16)
	compressed(t, sounds)
	return pictures, videos, sounds
}

// damaged changes some bytes of a file and, every other time, repairs the
// checksums.
func damaged(data []byte, seed uint64) []byte {
	out := runtimetest.Damage(data, seed)
	if seed%2 == 0 {
		return out
	}
	switch {
	case bytes.HasPrefix(out, []byte("\x89PNG\r\n\x1a\n")):
		for at := 8; at+12 <= len(out); {
			n := int(binary.BigEndian.Uint32(out[at:]))
			if n < 0 || n > len(out)-at-12 {
				break
			}
			binary.BigEndian.PutUint32(out[at+8+n:], crc32.ChecksumIEEE(out[at+4:at+8+n]))
			at += 12 + n
		}
	case bytes.HasPrefix(out, []byte("OggS")):
		for at := 0; at+27 <= len(out) && string(out[at:at+4]) == "OggS"; {
			n := 27 + int(out[at+26])
			if at+n > len(out) {
				break
			}
			for _, v := range out[at+27 : at+n] {
				n += int(v)
			}
			if at+n > len(out) {
				break
			}
			copy(out[at+22:], []byte{0, 0, 0, 0})
			binary.LittleEndian.PutUint32(out[at+22:], oggSum(out[at:at+n]))
			at += n
		}
	}
	return out
}

// oggSum is CRC-32 of polynomial 0x04c11db7, highest bit first.
func oggSum(b []byte) (sum uint32) {
	for _, v := range b {
		sum ^= uint32(v) << 24
		for range 8 {
			sum = sum<<1 ^ uint32(int32(sum)>>31)&0x04c11db7
		}
	}
	return sum
}

// Damaged images, videos and sounds are read or refused with a one-line reason,
// within bounds of memory and time (make hostile-media: 1,000 of each).
func TestHostileMedia(t *testing.T) {
	pictures, videos, sounds := hostileSeeds(t)
	n := 4 * runtimetest.Hostile(t)
	for _, kind := range []struct {
		name  string
		files map[string][]byte
		use   func([]byte) error
	}{{"pictures", pictures, usePicture}, {"videos", videos, useVideo}, {"sounds", sounds, useSound}} {
		names := slices.Sorted(maps.Keys(kind.files))
		for _, name := range names {
			if err := kind.use(kind.files[name]); err != nil {
				t.Fatalf("%s, undamaged: %v", name, err)
			}
		}
		var all tally
		for i := range n {
			name := names[i%len(names)]
			c := measureCost(func() error { return kind.use(damaged(kind.files[name], uint64(i))) })
			c.judge(t, fmt.Sprintf("damaged %s of %s, %d", kind.name, name, i))
			if errors.Is(c.err, errInfinite) {
				t.Errorf("%s, %d: %v", name, i, c.err)
			}
			all.add(c)
		}
		t.Logf("%d damaged %s of %d files: %d read, %d refused, 0 crashed; the slowest %v, the most memory %d KiB",
			n, kind.name, len(names), all.read, all.refused, all.slowest.Round(time.Millisecond), all.memory>>10)
		if all.read == 0 || all.refused == 0 {
			t.Errorf("%s: all errors are the same: %v", kind.name, all.why)
		}
	}
}

// A header of 100 megapixels and more is refused before any allocation, in
// every format.
func TestHostileHeaders(t *testing.T) {
	be, le := binary.BigEndian, binary.LittleEndian
	const w, h = 10000, 10001
	jpegOf := be.AppendUint16(be.AppendUint16([]byte("\xff\xd8\xff\xc0\x00\x11\x08"), h), w)
	jpegOf = append(jpegOf, "\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00\xff\xda\x00\x0c\x03\x01\x00\x02\x11\x03\x11\x00\x3f\x00"...)
	progressive := bytes.Replace(jpegOf, []byte("\xff\xc0"), []byte("\xff\xc2"), 1)
	gifOf := append(le.AppendUint16(le.AppendUint16([]byte("GIF89a"), w), h), 0x80, 0, 0, 0, 0, 0, 255, 255, 255)
	gifOf = append(le.AppendUint16(le.AppendUint16(append(gifOf, 0x2c, 0, 0, 0, 0), w), h), 0, 2, 1, 0, 0, 0x3b)
	bmpOf := append([]byte("BM"), make([]byte, 52)...)
	bmpOf[10], bmpOf[14], bmpOf[26], bmpOf[28] = 54, 40, 1, 24
	le.PutUint32(bmpOf[18:], w)
	le.PutUint32(bmpOf[22:], h)
	upside := bytes.Clone(bmpOf)
	le.PutUint32(upside[22:], uint32(0xffffffff-h))
	vp8 := le.AppendUint16(le.AppendUint16([]byte("RIFF\x1e\x00\x00\x00WEBPVP8 \x12\x00\x00\x00\x10\x00\x00\x9d\x01\x2a"), w), h)
	vp8 = append(vp8, make([]byte, 8)...)
	for name, c := range map[string]struct {
		data []byte
		use  func([]byte) error
	}{
		"png":             {pngHeader(w, h), usePicture},
		"png, 2^31":       {pngHeader(1<<31-1, 1<<31-1), usePicture},
		"jpeg":            {jpegOf, usePicture},
		"progressive":     {progressive, usePicture},
		"gif":             {gifOf, usePicture},
		"animation":       {gifOf, useVideo},
		"webp, lossless":  {webpHeader(false, w, h), usePicture},
		"webp, extended":  {webpHeader(true, w, h), usePicture},
		"webp, lossy":     {vp8, usePicture},
		"bmp":             {bmpOf, usePicture},
		"bmp, downwards":  {upside, usePicture},
		"y4m":             {[]byte("YUV4MPEG2 W10000 H10001 C420\nFRAME\n"), useVideo},
		"y4m, 2^40":       {[]byte("YUV4MPEG2 W1099511627776 H1 C420\nFRAME\n"), useVideo},
		"y4m, a long row": {[]byte("YUV4MPEG2 W67108864 H67108864 C420\nFRAME\n"), useVideo},
	} {
		got := measureCost(func() error { return c.use(c.data) })
		got.judge(t, name)
		if got.err == nil || got.memory > 1<<20 {
			t.Errorf("%s: %v, %d bytes", name, got.err, got.memory)
			continue
		}
		t.Logf("%-15s %7d bytes: %v", name, got.memory, got.err)
	}
}

// pngOf returns a PNG of zeros with rows of so many bytes.
func pngOf(w, h uint32, depth, kind byte, rowBytes int) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(id string, body []byte) {
		b = append(append(binary.BigEndian.AppendUint32(b, uint32(len(body))), id...), body...)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[len(b)-len(body)-4:]))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	chunk("IHDR", append(head, depth, kind, 0, 0, 0))
	var z bytes.Buffer
	zw := zlib.NewWriter(&z)
	row := make([]byte, 1+rowBytes)
	for range h {
		zw.Write(row)
	}
	zw.Close()
	chunk("IDAT", z.Bytes())
	chunk("IEND", nil)
	return b
}

// scans returns a progressive JPEG of one component, of w × h, whose n scans
// contain only end-of-block runs.
func scans(w, h uint16, n int) []byte {
	be := binary.BigEndian
	b := []byte("\xff\xd8\xff\xdb\x00\x43\x00")
	b = append(b, bytes.Repeat([]byte{1}, 64)...)
	b = be.AppendUint16(be.AppendUint16(append(b, "\xff\xc2\x00\x0b\x08"...), h), w)
	b = append(b, "\x01\x01\x11\x00"...)
	// One code of one bit each: no difference (DC), a run of 2^14 blocks and
	// more (AC, 0xe0).
	b = append(append(append(b, "\xff\xc4\x00\x14\x00\x01"...), make([]byte, 15)...), 0x00)
	b = append(append(append(b, "\xff\xc4\x00\x14\x10\x01"...), make([]byte, 15)...), 0xe0)
	blocks := (int(w) + 7) / 8 * ((int(h) + 7) / 8)
	b = append(b, "\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00"...)
	b = append(b, make([]byte, (blocks+7)/8)...)
	runs := (blocks + 1<<14 - 1) >> 14
	for range n {
		b = append(b, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00"...)
		b = append(b, make([]byte, (15*runs+7)/8)...)
	}
	return append(b, "\xff\xd9"...)
}

// Small files that expand very much are read within the bounds, or refused.
func TestHostileBombs(t *testing.T) {
	side := 1024
	if os.Getenv("MM_HOSTILE") != "" {
		side = 8192 // the limit of pixels
	}
	w, h := uint32(side), uint32(side)
	var g bytes.Buffer
	if err := gif.Encode(&g, image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		use  func([]byte) error
		want string // in the error; if empty, it is read
	}{
		{"png", pngOf(w, h, 8, 0, side), usePicture, ""},
		{"png of 16 bits", pngOf(w, h, 16, 6, 8*side), usePicture, ""},
		{"png of one row", pngOf(w*h, 1, 8, 0, side*side), usePicture, ""},
		{"png cut short", pngOf(w, h, 8, 2, 3*side)[:200], usePicture, "image"},
		{"png, too many rows", pngOf(w, h/2, 8, 0, 4*side), usePicture, "image"},
		{"gif", g.Bytes(), usePicture, ""},
		{"animation", g.Bytes(), useVideo, ""},
		{"jpeg of 31 scans", scans(uint16(w), uint16(h), 30), usePicture, ""},
		{"jpeg of 3,000 scans", scans(uint16(w), uint16(h), 3000), usePicture, "scans"},
		{"animation of 20,000 frames", loop(side, 20000), useVideo, "exceed the limit"},
		{"wav of one sample a second", loud(1, 1000), useSound, ""},
		{"wav that becomes 16 times as long", loud(side*side/64, 1000), useSound, ""},
	} {
		got := measureCost(func() error { return c.use(c.data) })
		got.judge(t, c.name)
		if c.want == "" && got.err != nil || c.want != "" && (got.err == nil || !strings.Contains(got.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, got.err, c.want)
		}
		t.Logf("%-34s %8d bytes of file: %5d ms, %5d MiB, %v", c.name, len(c.data), got.took.Milliseconds(), got.memory>>20, got.err)
	}
}

// loop returns a GIF of n frames that each cover a screen of side × side in a
// few bytes.
func loop(side, n int) []byte {
	le := binary.LittleEndian
	at := func(b []byte) []byte { return le.AppendUint16(le.AppendUint16(b, uint16(side)), uint16(side)) }
	b := append(at([]byte("GIF89a")), 0x80, 0, 0, 0, 0, 0, 255, 255, 255)
	for range n {
		b = append(at(append(b, 0x2c, 0, 0, 0, 0)), 0, 2, 1, 0, 0)
	}
	return append(b, 0x3b)
}

// loud returns a WAV of n 8-bit samples.
func loud(n, rate int) []byte {
	body := bytes.Repeat([]byte{255, 0}, (n+1)/2)[:n]
	return sound(format(1, 1, uint32(rate), 8), append(binary.LittleEndian.AppendUint32([]byte("data"), uint32(n)), body...))
}

// hostileWave returns a WAV of floats.
func hostileWave(v ...float32) []byte {
	var body []byte
	for _, x := range v {
		body = binary.LittleEndian.AppendUint32(body, math.Float32bits(x))
	}
	return sound(format(3, 1, 16000, 32), append(binary.LittleEndian.AppendUint32([]byte("data"), uint32(len(body))), body...))
}

// An empty sound and one with NaN are refused; a sound of large numbers gives
// finite numbers.
func TestHostileSounds(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, c := range map[string]struct {
		data []byte
		want string // in the error; if empty, it is read
	}{
		"no samples":         {hostileWave(), "empty sound"},
		"nothing":            {sound(format(1, 1, 16000, 16)), "missing samples"},
		"no number":          {hostileWave(0, nan), "bad sample"},
		"numbers, then none": {hostileWave(append(make([]float32, 40000), nan)...), "bad sample"},
		"infinite":           {hostileWave(inf), "bad sample"},
		"infinite, negative": {hostileWave(0, -inf, 0), "bad sample"},
		"opposite infinites": {hostileWave(inf, -inf), "bad sample"},
		"one sample":         {hostileWave(0.5), ""},
		"silence":            {hostileWave(make([]float32, 16000)...), ""},
		"denormal":           {hostileWave(math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32), ""},
		"beyond one":         {hostileWave(32767, -32768, 100), ""},
		"as large as can be": {hostileWave(math.MaxFloat32, -math.MaxFloat32, math.MaxFloat32), "bad sample"},
		"large":              {hostileWave(1e18, -1e18, 1e18), "bad sample"},
	} {
		got := measureCost(func() error { return useSound(c.data) })
		got.judge(t, name)
		if c.want == "" && got.err != nil || c.want != "" && (got.err == nil || !strings.Contains(got.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, got.err, c.want)
		}
		t.Logf("%-20s %v", name, got.err)
	}
}

// compressed adds the test sounds of package codec, short ones of each format.
func compressed(t *testing.T, sounds map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("codec", "testdata", "sounds.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Sounds []struct {
			Name string
			File []byte
		}
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.Sounds {
		sounds[s.Name] = s.File
	}
}
