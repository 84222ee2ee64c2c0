package codec_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mm-abi.org/mm/core/preprocess/codec"
)

var limits = codec.Limits{MinRate: 1000, MaxRate: 384000, MaxChannels: 8, MaxSamples: 1 << 20}

// goldens is the output of testdata/sounds.py.
type goldens struct {
	Sounds []struct {
		Name    string
		Rate    int
		Encoded int // samples that the encoder was given
		File    []byte
		Samples []byte // samples given to the encoder
	}
}

func load(t testing.TB) goldens {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "sounds.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g goldens
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	for _, s := range load(t).Sounds {
		if s.Name == name {
			return s.File
		}
	}
	t.Fatalf("no sound %q", name)
	return nil
}

// Every sound has the length and the samples of libsndfile: FLAC exactly,
// Vorbis to 10⁻⁵, MP3, which comes in 16 bits, to two steps of these. If short
// blocks and joint stereo meet, go-mp3 leaves a few lines at the top of a band
// uncoded: the difference is 57 dB below the sound.
func TestDecode(t *testing.T) {
	// Frames of 32 kbit/s have no room for LAME's tag.
	unnoted := map[string]bool{"mp3 without a note": true, "mp3 22.05 kHz mono": true}
	for _, s := range load(t).Sounds {
		if !codec.Is(s.File) {
			t.Errorf("%s: unknown", s.Name)
		}
		rate, got, err := codec.Decode(s.File, limits)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if rate != s.Rate || len(got) != len(s.Samples)/4 {
			t.Errorf("%s: %d samples at %d, want %d at %d", s.Name, len(got), rate, len(s.Samples)/4, s.Rate)
			continue
		}
		if len(got) != s.Encoded && !unnoted[s.Name] {
			t.Errorf("%s: %d samples, %d were encoded", s.Name, len(got), s.Encoded)
		}
		worst, power, diff := 0.0, 0.0, 0.0
		for i, v := range got {
			want := float64(math.Float32frombits(binary.LittleEndian.Uint32(s.Samples[4*i:])))
			d := math.Abs(float64(v) - want)
			worst, power, diff = max(worst, d), power+want*want, diff+d*d
		}
		bound := map[string]float64{"flac": 1e-7, "mp3 ": 2.0 / 32768, "ogg ": 1e-5}[s.Name[:4]]
		if s.Name == "mp3 22.05 kHz stereo" {
			bound = 0.005
		}
		t.Logf("%-20s %6d samples, worst difference %.2g, %.0f dB below the sound", s.Name, len(got), worst, 10*math.Log10(power/max(diff, 1e-30)))
		if worst > bound {
			t.Errorf("%s: a sample is %.3g off, at most %.3g", s.Name, worst, bound)
		}
	}
}

func TestRefused(t *testing.T) {
	flac, mp3, ogg := file(t, "flac16"), file(t, "mp3 44.1 kHz stereo"), file(t, "ogg 16 kHz")
	change := func(b []byte, at int, v ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "not a FLAC"},
		"a wav":                {[]byte("RIFF\x00\x00\x00\x00WAVE"), "not a FLAC"},
		"a tag alone":          {[]byte("ID3\x04\x00\x00\x00\x00\x00\x00"), "not a FLAC"},
		"a tag beyond the end": {[]byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7fxx"), "not a FLAC"},
		"flac, its mark":       {flac[:4], "header"},
		"flac, cut":            {flac[:len(flac)-20], "FLAC frame"},
		"flac, a frame less":   {change(flac, 24, 0xff, 0xff), "truncated"},
		"flac, a bit":          {change(flac, len(flac)-30, flac[len(flac)-30]^1), "FLAC frame"},
		"flac, a long one":     {change(flac, 21, 0xff, 0xff, 0xff, 0xff, 0xff), "too many samples: limit 1048576 in 1 channels"},
		"flac, another rate":   {change(flac, 18, 0x01, 0x00), "want"},
		"mp3, cut":             {mp3[:len(mp3)-700], "truncated"},
		"mp3, a note alone":    {mp3[:313], "no MP3 frames"},
		"mp3 of 8 kHz":         {[]byte("\xff\xe3\x18\xc0"), "MPEG 2.5"},
		"ogg, its mark":        {[]byte("OggS"), "damaged or truncated"},
		"ogg, cut":             {ogg[:len(ogg)-20], "truncated"},
		"ogg, a bit":           {change(ogg, len(ogg)-20, ogg[len(ogg)-20]^1), "checksum"},
		"ogg, two streams":     {append(bytes.Clone(ogg[:28+30]), ogg...), "several Ogg streams"},
		"ogg, no vorbis":       {page(2, 0, []byte("Theora")), "missing Vorbis headers"},
		"ogg, opus":            {page(2, 0, []byte("OpusHead\x01\x01")), "of Opus"},
	} {
		_, _, err := codec.Decode(c.data, limits)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, _, err := codec.Decode([]byte("x"), limits); !errors.Is(err, codec.ErrFormat) {
		t.Error(err)
	}
	// The limits are the caller's.
	for _, data := range [][]byte{flac, mp3, ogg} {
		few := limits
		few.MaxSamples = 700
		if _, _, err := codec.Decode(data, few); err == nil || !strings.Contains(err.Error(), "too many samples: limit 700") {
			t.Errorf("beyond the limit: %v", err)
		}
		slow := limits
		slow.MinRate = 100000
		if _, _, err := codec.Decode(data, slow); err == nil || !strings.Contains(err.Error(), "bad sample rate") {
			t.Errorf("another rate: %v", err)
		}
	}
}

// Tags are ignored: before, after, several, with a footer.
func TestTags(t *testing.T) {
	id3 := func(flags byte, n int) []byte {
		b := []byte{'I', 'D', '3', 4, 0, flags, 0, 0, byte(n >> 7), byte(n & 127)}
		b = append(b, bytes.Repeat([]byte{0xff}, n)...)
		if flags&0x10 != 0 {
			b = append(b, "3DI4567890"...)
		}
		return b
	}
	ape := append(bytes.Repeat([]byte{0xff, 0xfb}, 20), "APETAGEX"...)
	ape = binary.LittleEndian.AppendUint32(ape, 2000)
	ape = binary.LittleEndian.AppendUint32(ape, 40+32)
	ape = append(ape, make([]byte, 16)...)
	id1 := append([]byte("TAG"), bytes.Repeat([]byte{0xff}, 125)...)
	for name, tags := range map[string][2][]byte{
		"one": {id3(0, 300), nil}, "two": {append(id3(0, 5), id3(0x10, 200)...), nil}, "after": {nil, append(ape, id1...)},
	} {
		for _, kind := range []string{"flac16", "mp3 48 kHz joint", "mp3 without a note"} {
			data := file(t, kind)
			_, want, err := codec.Decode(data, limits)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := codec.Decode(bytes.Join([][]byte{tags[0], data, tags[1]}, nil), limits)
			if err != nil || len(got) != len(want) {
				t.Errorf("%s, %s: %d samples, want %d; %v", name, kind, len(got), len(want), err)
			}
		}
	}
}

// page returns an Ogg page of one stream with a packet.
func page(flags byte, granule int64, packet []byte) []byte {
	lacing := bytes.Repeat([]byte{255}, len(packet)/255)
	lacing = append(lacing, byte(len(packet)%255))
	b := append([]byte("OggS\x00"), flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(granule))
	b = append(b, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(lacing)))
	b = append(append(b, lacing...), packet...)
	var sum uint32 // bit by bit, as in RFC 3533
	for _, v := range b {
		for bit := 7; bit >= 0; bit-- {
			top := sum>>31 ^ uint32(v>>bit&1)
			sum = sum<<1 ^ top*0x04c11db7
		}
	}
	binary.LittleEndian.PutUint32(b[22:], sum)
	return b
}

// packer writes bits from the lowest of each byte on.
type packer struct {
	b []byte
	n int
}

func (p *packer) put(v uint64, width int) *packer {
	for i := range width {
		if p.n%8 == 0 {
			p.b = append(p.b, 0)
		}
		p.b[p.n/8] |= byte(v>>i&1) << (p.n % 8)
		p.n++
	}
	return p
}

// A stream's header may request tables of any size, or an endless search: it is
// refused before decoding, in negligible time and memory.
func TestVorbisBombs(t *testing.T) {
	identification := func(channels, blocks byte, rate uint32) []byte {
		b := append([]byte("\x01vorbis\x00\x00\x00\x00"), channels)
		b = append(binary.LittleEndian.AppendUint32(b, rate), make([]byte, 12)...)
		return append(b, blocks, 1)
	}
	stream := func(id []byte, setup *packer) []byte {
		return bytes.Join([][]byte{
			page(2, 0, id),
			page(0, 0, append([]byte("\x03vorbis\x00\x00\x00\x00\xff\xff\xff\xff"), 1)), // 2³² comments
			page(0, 0, append([]byte("\x05vorbis"), setup.b...)),
			page(4, 1, []byte{0}),
		}, nil)
	}
	book := func(dimensions, entries uint64) *packer {
		return new(packer).put(0, 8).put(0x564342, 24).put(dimensions, 16).put(entries, 24)
	}
	good := identification(1, 0xb8, 16000)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no entries":         {stream(good, book(1, 0)), "codebook 0: bad entry count: got 0, want 2 to 65536"},
		"many entries":       {stream(good, book(1, 1<<24-1)), "codebook 0: bad entry count: got 16777215, want 2 to 65536"},
		"no dimensions":      {stream(good, book(0, 4)), "codebook 0: bad dimensions: got 0, want 1 to 64"},
		"many dimensions":    {stream(good, book(65535, 4)), "codebook 0: bad dimensions: got 65535, want 1 to 64"},
		"an endless book":    {stream(good, book(1, 9).put(1, 1).put(0, 5).put(0, 40)), "codebook 0: invalid code word lengths"},
		"an unused book":     {stream(good, book(1, 9).put(0, 1).put(1, 1).put(0, 9)), "no code words"},
		"many numbers":       {stream(good, book(64, 60000).put(1, 1).put(15, 5).put(60000, 16).put(2, 4)), "numbers"},
		"cut":                {stream(good, book(1, 9)), "no code words"},
		"many channels":      {stream(identification(255, 0xb8, 16000), book(1, 1)), "bad channel count: got 255, want 1 to 8"},
		"no channels":        {stream(identification(0, 0xb8, 16000), book(1, 1)), "bad channel count: got 0, want 1 to 8"},
		"large blocks":       {stream(identification(1, 0xf8, 16000), book(1, 1)), "blocks of"},
		"swapped blocks":     {stream(identification(1, 0x8b, 16000), book(1, 1)), "blocks of"},
		"no rate":            {stream(identification(1, 0xb8, 0), book(1, 1)), "bad sample rate"},
		"nothing to read":    {page(6, 0, good), "missing Vorbis headers"},
		"a packet cut short": {page(2, 0, good)[:40], "truncated"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := codec.Decode(c.data, limits)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d MiB allocated", name, used>>20)
		}
	}
	// Empty pages and packets, many in a row.
	var empty []byte
	for range 200000 {
		empty = append(empty, page(0, -1, nil)...)
	}
	if _, _, err := codec.Decode(append(page(2, 0, good), empty...), limits); err == nil {
		t.Error("a file of empty packets is a sound")
	}
}

// fuzz decodes files prefixed with a format's magic.
func fuzz(f *testing.F, kind string) {
	for _, s := range load(f).Sounds {
		if strings.HasPrefix(s.Name, kind) && len(s.File) < 10000 {
			f.Add(s.File)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lim := limits
		lim.MaxSamples = 1 << 17
		rate, samples, err := codec.Decode(data, lim)
		if err != nil {
			return
		}
		if rate < lim.MinRate || len(samples) == 0 || len(samples) > lim.MaxSamples {
			t.Fatalf("%d samples at %d", len(samples), rate)
		}
		for i, v := range samples {
			if v != v || math.IsInf(float64(v), 0) {
				t.Fatalf("sample %d is %v", i, v)
			}
		}
	})
}

// Any bytes are a sound within the limits, or an error.
func FuzzFLAC(f *testing.F)   { fuzz(f, "flac") }
func FuzzMP3(f *testing.F)    { fuzz(f, "mp3") }
func FuzzVorbis(f *testing.F) { fuzz(f, "ogg") }

// The setup header alone: random changes do not get past the checksum.
func FuzzVorbisSetup(f *testing.F) {
	data := file(f, "ogg 16 kHz")
	at := bytes.Index(data, []byte("\x05vorbis"))
	end := bytes.Index(data[at:], []byte("OggS"))
	f.Add(data[at : at+end])
	id := data[28 : 28+30]
	f.Fuzz(func(t *testing.T, setup []byte) {
		if len(setup) > 60000 {
			return
		}
		b := append(page(2, 0, id), page(0, 0, []byte("\x03vorbis"))...)
		b = append(b, page(0, 0, setup)...)
		for range 8 {
			b = append(b, page(0, -1, bytes.Repeat([]byte{0x5a, 0xc6, 0x30}, 40))...)
		}
		codec.Decode(append(b, page(4, 5000, []byte{2, 9, 8, 7})...), limits)
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range load(b).Sounds {
		b.Run(s.Name, func(b *testing.B) {
			seconds := 0.0
			for b.Loop() {
				rate, got, err := codec.Decode(s.File, limits)
				if err != nil {
					b.Fatal(err)
				}
				seconds += float64(len(got)) / float64(rate)
			}
			b.ReportMetric(seconds/b.Elapsed().Seconds(), "x-realtime")
		})
	}
}
