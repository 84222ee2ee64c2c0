package sound

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// Each limit accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	pack := func(n int) error {
		var b bytes.Buffer
		if err := WritePack(&b, "a test", []Take{{Text: "one", Voice: "f2"}}, [][]int16{make([]int16, n)}); err != nil {
			t.Fatal(err)
		}
		_, err := parsePack(b.Bytes())
		return err
	}
	people := func(n int) error {
		dir := t.TempDir()
		wav := preprocess.EncodeWAV(&preprocess.Wave{Rate: Rate, Samples: make([]float32, (n-44)/2)})
		wav = append(wav, make([]byte, n-len(wav))...)
		if err := os.WriteFile(filepath.Join(dir, "1_ann_0.wav"), wav, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Kinds: []string{Human}, FSDD: dir})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	for name, c := range map[string]struct{ at, beyond error }{
		"maxIndex":      {checkIndex(maxIndex, maxIndex+1), checkIndex(maxIndex+1, maxIndex+1)},
		"index in file": {checkIndex(10, 10), checkIndex(11, 10)},
		"MaxSamples":    {pack(MaxSamples), pack(MaxSamples + 1)},
		"maxRecording":  {people(maxRecording), people(maxRecording + 1)},
	} {
		if c.at != nil {
			t.Errorf("%s: %v", name, c.at)
		}
		if c.beyond == nil {
			t.Errorf("%s + 1: accepted", name)
		}
	}
}
