package figure

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestMatplotlib reads charts of matplotlib with grid lines and stacked bars
// (testdata/charts.py). The value of a stacked bar is its total.
func TestMatplotlib(t *testing.T) {
	set, err := Letters()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/charts.json")
	if err != nil {
		t.Fatal(err)
	}
	var truth map[string][]float64
	if err := json.Unmarshal(data, &truth); err != nil {
		t.Fatal(err)
	}
	for name, want := range truth {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			b := img.Bounds()
			var pix []byte
			for y := range b.Dy() {
				for x := range b.Dx() {
					r, g, u, _ := img.At(x, y).RGBA()
					pix = append(pix, byte(r>>8), byte(g>>8), byte(u>>8))
				}
			}
			got, err := ReadChart(free{}, set, pix, b.Dx(), b.Dy())
			if err != nil || len(got.Values) != len(want) {
				t.Fatalf("got %v, %v, want %v", got.Values, err, want)
			}
			for i, l := range got.Labels {
				if l != string(rune('A'+i)) && l != "bar "+strconv.Itoa(i+1) {
					t.Errorf("bar %d: got label %q", i, l)
				}
			}
			for i, v := range want {
				if math.Abs(got.Values[i]-v) > 1 {
					t.Errorf("bar %d: got %g, want %g", i, got.Values[i], v)
				}
			}
		})
	}
}
