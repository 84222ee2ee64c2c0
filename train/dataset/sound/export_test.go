package sound

import (
	"bytes"
	"math"
	"sync"
	"testing"
)

// ParsePack parses a pack in memory.
var ParsePack = parsePack

// PackOf returns a pack of voices that say each text once: a third of a second
// of a tone.
func PackOf(t testing.TB, voices []string) []byte {
	t.Helper()
	var takes []Take
	var samples [][]int16
	for _, v := range voices {
		for k, text := range append(digitWords(), Vocabulary()...) {
			takes = append(takes, Take{Text: text, Voice: "en-us+" + v, Variant: v, Pitch: 50, Speed: 120})
			pcm := make([]int16, Rate/3)
			for i := range pcm {
				pcm[i] = int16(9000 * math.Sin(float64(i*(k+3))/99))
			}
			samples = append(samples, pcm)
		}
	}
	var b bytes.Buffer
	if err := WritePack(&b, "a test", takes, samples); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Spelt returns a number in words.
var Spelt = spelt

// Frames returns n frames of speech.
func Frames(v []float64, n int) []float32 { return newAnalyser().frames(v, n) }

// ReaderOf returns a voice that says each word as a distinct mix of tones, shared
// by all tests: its decomposition takes a second.
func ReaderOf(t testing.TB) *Reader {
	t.Helper()
	once.Do(func() {
		r, err := NewReader(ReaderPack(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		shared = r
	})
	return shared
}

var (
	once   sync.Once
	shared *Reader
)

// NewReader reads a voice from a pack in memory.
func NewReader(data []byte) (*Reader, error) {
	p, err := parsePack(data)
	if err != nil {
		return nil, err
	}
	return newReader(p)
}

// ReaderPack returns a pack of one voice with takes modified by change.
func ReaderPack(t testing.TB, change func(takes []Take, samples [][]int16) ([]Take, [][]int16)) []byte {
	t.Helper()
	var takes []Take
	var samples [][]int16
	for k, text := range SpokenWords() {
		takes = append(takes, Take{Text: text, Voice: "en-us+f2", Variant: "f2", Pitch: 50, Speed: 150})
		v := make([]int16, Rate/4+100*(k%20))
		for i := range v {
			at := float64(i) / Rate
			v[i] = int16(6000*math.Sin(at*2*math.Pi*float64(200+60*k)) + 5000*math.Sin(at*2*math.Pi*float64(4000-25*k)))
		}
		samples = append(samples, v)
	}
	if change != nil {
		takes, samples = change(takes, samples)
	}
	var b bytes.Buffer
	if err := WritePack(&b, "a test", takes, samples); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
