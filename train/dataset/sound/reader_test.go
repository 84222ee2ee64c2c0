package sound_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/sound"
)

// Every word is recognized by its code, even with noise; silence is not a word.
func TestReader(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	r := sound.ReaderOf(t)
	words := sound.SpokenWords()
	for i := 0; i+3 < len(words); i += 3 {
		want := []string{words[i], words[i+1], words[i+2], ""}
		codes := r.Codes(want[:3])
		for k := range codes {
			codes[k] += 0.1 * float32(math.Sin(float64(k+i)))
		}
		if d := cmp.Diff(want, r.Nearest(codes)); d != "" {
			t.Fatal(d)
		}
	}
}

// The codes and the basis reconstruct the frames of digits, which words differ
// in.
func TestBasis(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	r := sound.ReaderOf(t)
	const size = sound.StretchFrames * sound.FrameWidth
	p, err := sound.ParsePack(sound.ReaderPack(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	codes := r.Codes([]string{"seven"})
	var off, all float64
	pcm := p.PCM(p.Takes[7])
	v := make([]float64, len(pcm))
	for i, x := range pcm {
		v[i] = float64(x)
	}
	for k, want := range sound.Frames(v, sound.StretchFrames) {
		got := 0.0
		for c := range sound.CodeWidth {
			got += float64(codes[c]) * float64(r.Basis()[c*size+k])
		}
		off += (got - float64(want)) * (got - float64(want))
		all += float64(want) * float64(want)
	}
	if all == 0 || off > 0.02*all {
		t.Errorf("%.4f of the frames lost", off/all)
	}
}

// A folder without a voice, with several, without a word or with too long a
// word is refused.
func TestReaderRefused(t *testing.T) {
	t.Parallel()
	if _, err := sound.OpenReader(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--reader") {
		t.Error(err)
	}
	for want, change := range map[string]func([]sound.Take, [][]int16) ([]sound.Take, [][]int16){
		"missing 1 words": func(a []sound.Take, b [][]int16) ([]sound.Take, [][]int16) { return a[1:], b[1:] },
		"single voice":    func(a []sound.Take, b [][]int16) ([]sound.Take, [][]int16) { a[3].Voice = "en-us+m1"; return a, b },
		"9601 samples":    func(a []sound.Take, b [][]int16) ([]sound.Take, [][]int16) { b[2] = make([]int16, 9601); return a, b },
		"too few": func(a []sound.Take, b [][]int16) ([]sound.Take, [][]int16) {
			for i := range b {
				b[i] = b[0]
			}
			return a, b
		},
	} {
		if testing.Short() && want == "too few" { // a decomposition takes a second
			continue
		}
		if _, err := sound.NewReader(sound.ReaderPack(t, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if testing.Short() {
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, sound.PackFile), sound.ReaderPack(t, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := sound.OpenReader(dir); err != nil || r.Voice != "en-us+f2" {
		t.Error(err)
	}
}

// The grains of a sound's frames are as loud as the sound, in the same places:
// a tone is voice, noise is breath, and both end with the sound.
func TestFrames(t *testing.T) {
	tone, noise := make([]float64, sound.StretchSamples/2), make([]float64, sound.StretchSamples/2)
	seed := uint32(1)
	for i := range tone {
		for k := 1; k < 12; k++ {
			tone[i] += 0.05 * math.Sin(2*math.Pi*120*float64(k*i)/sound.Rate+float64(k*k))
		}
		seed = seed*1664525 + 1013904223
		noise[i] = 0.2 * (float64(seed>>8)/(1<<23) - 1)
	}
	for name, v := range map[string][]float64{"tone": tone, "noise": noise} {
		frames := sound.Frames(v, sound.StretchFrames)
		voiced, breath := 0.0, 0.0
		for i, x := range frames {
			if i%sound.FrameWidth < sound.VoicedBands {
				voiced += math.Pow(float64(x), 4)
			} else {
				breath += math.Pow(float64(x), 4)
			}
		}
		if (voiced > 4*breath) != (name == "tone") || (breath > 4*voiced) != (name == "noise") {
			t.Errorf("%s: %.3f voice, %.3f breath", name, voiced, breath)
		}
		got := sounded(frames)
		a, b := power(v[1600:4000]), power(got[1600:4000])
		if b < 0.5*a || b > 2*a {
			t.Errorf("%s: power %.5f, of its frames %.5f", name, a, b)
		}
		if rest := power(got[6400:]); rest > 0.001*a {
			t.Errorf("%s: power %.6f of %.6f after the end", name, rest, a)
		}
	}
}

func power(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x / float64(len(v))
	}
	return sum
}

// sounded sums the grains of frames.
func sounded(frames []float32) []float64 {
	const grain = 2 * sound.FrameStep
	tones, breaths := sound.VoicedGrains(), sound.BreathGrains()
	n := len(frames) / sound.FrameWidth
	out := make([]float64, n*sound.FrameStep+grain)
	for i := range n {
		for k, x := range frames[i*sound.FrameWidth : (i+1)*sound.FrameWidth] {
			g := tones
			at := k
			if k >= sound.VoicedBands {
				g, at = breaths, i%sound.BreathFrames*sound.BreathBands+k-sound.VoicedBands
			}
			for t, v := range g[at*grain : (at+1)*grain] {
				out[i*sound.FrameStep+t] += float64(x) * float64(x) * float64(v)
			}
		}
	}
	return out[sound.FrameStep/2:][:n*sound.FrameStep]
}
