package preprocess

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// recording is a case of scripts/sounds.py.
type recording struct {
	Name, Kind    string
	File, Samples []byte
	Rate          int
	Tolerance     float64 // the largest difference
	RMS           float64
}

// compare checks the sound and returns how it was read and the largest
// difference.
func (r *recording) compare() (string, float64, error) {
	w, err := DecodeSound(r.File)
	n := len(r.Samples) / 4
	switch {
	case err != nil && r.Kind == "equal":
		return "", 0, err
	case err != nil:
		return "refused", 0, nil
	case r.Kind == "refused":
		return "", 0, fmt.Errorf("got %d samples at %d Hz, want a refusal", len(w.Samples), w.Rate)
	case w.Rate != r.Rate || len(w.Samples) != n:
		return "", 0, fmt.Errorf("got %d samples at %d Hz, want %d at %d", len(w.Samples), w.Rate, n, r.Rate)
	}
	worst, square := 0.0, 0.0
	for i, v := range w.Samples {
		want := math.Float32frombits(binary.LittleEndian.Uint32(r.Samples[4*i:]))
		d := math.Abs(float64(v) - float64(want))
		worst, square = max(worst, d), square+d*d
	}
	if rms := math.Sqrt(square / float64(n)); !(worst <= r.Tolerance && rms <= r.RMS) {
		return "", worst, fmt.Errorf("differs by %g, RMS %g, want at most %g and %g", worst, rms, r.Tolerance, r.RMS)
	}
	return "equal", worst, nil
}

// Every format has the samples of libsndfile, the mean of the channels, or is
// refused. MM_SOUNDS names the larger file that make sounds writes.
func TestSounds(t *testing.T) {
	var cases []recording
	readCases(t, cmp.Or(os.Getenv("MM_SOUNDS"), "testdata/sounds.json.gz"), &cases)
	type row struct {
		equal, refused, failed int
		worst                  float64
	}
	rows, order := map[string]*row{}, []string(nil)
	for i := range cases {
		format, _, _ := strings.Cut(cases[i].Name, "/")
		if rows[format] == nil {
			rows[format], order = &row{}, append(order, format)
		}
		at := rows[format]
		how, worst, err := cases[i].compare()
		at.worst = max(at.worst, worst)
		switch {
		case err != nil:
			at.failed++
			t.Errorf("%s: %v", cases[i].Name, err)
		case how == "refused":
			at.refused++
		default:
			at.equal++
		}
	}
	t.Logf("%-10s %6s %8s %7s %11s", "format", "equal", "refused", "failed", "difference")
	for _, name := range order {
		r := rows[name]
		t.Logf("%-10s %6d %8d %7d %11.2g", name, r.equal, r.refused, r.failed, r.worst)
	}
}
