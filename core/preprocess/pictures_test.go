package preprocess

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// picture is a case of scripts/pictures.py.
type picture struct {
	Name, Kind    string
	File, RGB     []byte
	Width, Height int
	Tolerance     int
	Mean          float64
}

// readCases reads a file of one of the scripts that write reference values.
func readCases(t *testing.T, path string, cases any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(cases); err != nil {
		t.Fatal(err)
	}
}

// differ returns the largest and the mean difference.
func (p *picture) differ(r *Raster) (int, float64) {
	worst, sum := 0, 0
	for i, v := range r.Pix {
		d := max(int(v)-int(p.RGB[i]), int(p.RGB[i])-int(v))
		worst, sum = max(worst, d), sum+d
	}
	return worst, float64(sum) / float64(len(r.Pix))
}

// compare checks the picture and returns how it was read.
func (p *picture) compare() (string, int, error) {
	r, err := DecodeImage(p.File)
	switch {
	case err != nil && p.Kind == "equal":
		return "", 0, err
	case err != nil:
		return "refused", 0, nil
	case p.Kind == "refused":
		return "", 0, fmt.Errorf("read as %d × %d, want a refusal", r.W, r.H)
	case r.W != p.Width || r.H != p.Height:
		return "", 0, fmt.Errorf("got %d × %d, want %d × %d", r.W, r.H, p.Width, p.Height)
	}
	worst, mean := p.differ(r)
	if worst > p.Tolerance || mean > p.Mean {
		return "", worst, fmt.Errorf("differs by %d, %.2f on average, want at most %d and %.2f", worst, mean, p.Tolerance, p.Mean)
	}
	return "equal", worst, nil
}

// Every format and mode has the values of Pillow's convert("RGB"), or is
// refused. MM_PICTURES names the larger file that make pictures writes.
func TestPictures(t *testing.T) {
	var cases []picture
	readCases(t, cmp.Or(os.Getenv("MM_PICTURES"), "testdata/pictures.json.gz"), &cases)
	type row struct{ equal, refused, failed, worst int }
	rows, order := map[string]*row{}, []string(nil)
	for i := range cases {
		p := &cases[i]
		format, _, _ := strings.Cut(p.Name, "/")
		if rows[format] == nil {
			rows[format], order = &row{}, append(order, format)
		}
		at := rows[format]
		how, worst, err := p.compare()
		at.worst = max(at.worst, worst)
		switch {
		case err != nil:
			at.failed++
			t.Errorf("%s: %v", p.Name, err)
		case how == "refused":
			at.refused++
		default:
			at.equal++
		}
	}
	t.Logf("%-17s %6s %8s %7s %11s", "format", "equal", "refused", "failed", "difference")
	for _, name := range order {
		r := rows[name]
		t.Logf("%-17s %6d %8d %7d %11d", name, r.equal, r.refused, r.failed, r.worst)
	}
}
