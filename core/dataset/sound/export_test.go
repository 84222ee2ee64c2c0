package sound

import (
	"bytes"
	"math"
	"testing"
)

// ParsePack reads a pack out of memory.
var ParsePack = parsePack

// PackOf is a pack of voices that say each text once: a third of a second of a
// tone.
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
	if err := writePack(&b, "a test", takes, samples); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
