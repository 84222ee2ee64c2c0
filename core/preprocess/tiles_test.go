package preprocess_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// picture is that of scripts/tiles.py.
func picture(w, h int) *preprocess.Raster {
	r := &preprocess.Raster{W: w, H: h, C: 3, Pix: make([]byte, 0, 3*w*h)}
	for y := range h {
		for x := range w {
			r.Pix = append(r.Pix, byte(3*x+y), byte(5*y+2*x), byte(x*y/7))
		}
	}
	return r
}

// TestTiles: tiles equal those of transformers byte for byte.
func TestTiles(t *testing.T) {
	data, err := os.ReadFile("testdata/tiles.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Choose                           string
		Size, Longest, Most, W, H, Tiles int
		Grid                             []int
		Pinpoints                        [][2]int
		SHA256                           string
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 60 {
		t.Fatal(len(rows), err)
	}
	for i, c := range rows {
		if testing.Short() && i%7 != 0 {
			continue
		}
		filter := map[string]string{"longest": "lanczos", "aspect": "bicubic", "pinpoints": "bicubic"}[c.Choose]
		s := preprocess.Spec{DType: "uint8", Picture: preprocess.Picture{Resample: filter, Tiles: &preprocess.Tiles{Size: c.Size, Choose: c.Choose, Longest: c.Longest, Most: c.Most, Pinpoints: c.Pinpoints}}}
		if faults := s.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
		tiles, grid, err := s.FromTiles(t.Context(), picture(c.W, c.H))
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		sum := sha256.New()
		for _, x := range tiles {
			if fmt.Sprint(x.Shape) != fmt.Sprint([]int{1, 3, c.Size, c.Size}) {
				t.Fatal(x.Shape)
			}
			sum.Write(x.Data)
		}
		if got := s.Tiles.Grid(c.W, c.H); got != grid {
			t.Errorf("%s %d of %d × %d: grid %v by size, %v by image", c.Choose, c.Size, c.W, c.H, got, grid)
		}
		if len(tiles) != c.Tiles || len(tiles) > s.Tiles.Bound() || c.Grid != nil && fmt.Sprint(c.Grid) != fmt.Sprint([]int{grid.Rows, grid.Columns}) {
			t.Errorf("%s %d of %d × %d: %d tiles in %v, want %d in %v", c.Choose, c.Size, c.W, c.H, len(tiles), grid, c.Tiles, c.Grid)
			continue
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != c.SHA256 {
			t.Errorf("%s %d of %d × %d: other bytes", c.Choose, c.Size, c.W, c.H)
		}
	}
}

// TestTileLimits has each number at its limit and beyond it.
func TestTileLimits(t *testing.T) {
	for _, c := range []struct {
		tiles preprocess.Tiles
		want  string
	}{
		{preprocess.Tiles{Size: 4096, Choose: "longest", Longest: 4096}, ""},
		{preprocess.Tiles{Size: 4097, Choose: "longest", Longest: 5000}, "size 4097"},
		{preprocess.Tiles{Size: 256, Choose: "longest", Longest: 65536}, ""},
		{preprocess.Tiles{Size: 4096, Choose: "longest", Longest: 65537}, "longest side 65537"},
		{preprocess.Tiles{Size: 64, Choose: "longest", Longest: 1024}, ""},
		{preprocess.Tiles{Size: 64, Choose: "longest", Longest: 1025}, "at most 256 tiles"},
		{preprocess.Tiles{Size: 64, Choose: "longest", Longest: 63}, "longest side 63"},
		{preprocess.Tiles{Size: 64, Choose: "aspect", Most: 256}, ""},
		{preprocess.Tiles{Size: 64, Choose: "aspect", Most: 257}, "number of tiles 257"},
		{preprocess.Tiles{Size: 64, Choose: "aspect"}, "number of tiles 0"},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints", Pinpoints: [][2]int{{1024, 1024}}}, ""},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints", Pinpoints: [][2]int{{1024, 1088}}}, "at most 256 tiles"},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints", Pinpoints: [][2]int{{64, 65}}}, "bad pinpoint [64 65]"},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints", Pinpoints: [][2]int{{0, 64}}}, "bad pinpoint [0 64]"},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints", Pinpoints: make([][2]int, 257)}, "257 pinpoints"},
		{preprocess.Tiles{Size: 64, Choose: "pinpoints"}, "0 pinpoints"},
		{preprocess.Tiles{Size: 64, Choose: "aspect", Most: 2, Pinpoints: [][2]int{{64, 64}}}, "require choose"},
		{preprocess.Tiles{Size: 64, Choose: "random"}, `choose "random"`},
	} {
		s := preprocess.Spec{Picture: preprocess.Picture{Tiles: &c.tiles}}
		if got := fmt.Sprint(s.Check()); (got == "[]") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %q", c.tiles, got, c.want)
		}
	}
	s := preprocess.Spec{Picture: preprocess.Picture{Resize: []int{4, 4}, Crop: []int{2, 2}, Tiles: &preprocess.Tiles{Size: 64, Choose: "aspect", Most: 2}}}
	for _, want := range []string{"exclude each other", "tiles exclude crop"} {
		if got := fmt.Sprint(s.Check()); !strings.Contains(got, want) {
			t.Errorf("%s, want %q", got, want)
		}
	}
}

// TestFits: pictures that are resized as a whole equal those of transformers byte for
// byte.
func TestFits(t *testing.T) {
	data, err := os.ReadFile("testdata/fits.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Spec   preprocess.Spec
		W, H   int
		Size   []int // width, height
		SHA256 string
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 300 {
		t.Fatal(len(rows), err)
	}
	for i, c := range rows {
		if testing.Short() && i%7 != 0 {
			continue
		}
		c.Spec.DType = "uint8"
		if faults := c.Spec.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
		x, err := c.Spec.FromRaster(t.Context(), picture(c.W, c.H))
		if err != nil {
			t.Errorf("%+v of %d × %d: %v", c.Spec.Picture, c.W, c.H, err)
			continue
		}
		if got, want := fmt.Sprint(x.Shape), fmt.Sprint([]int{1, 3, c.Size[1], c.Size[0]}); got != want {
			t.Errorf("%+v of %d × %d: got shape %s, want %s", c.Spec.Picture, c.W, c.H, got, want)
			continue
		}
		if sum := sha256.Sum256(x.Data); hex.EncodeToString(sum[:]) != c.SHA256 {
			t.Errorf("%+v of %d × %d: other bytes", c.Spec.Picture, c.W, c.H)
		}
		if f := c.Spec.Fit; f != nil && c.Size[0]*c.Size[1] > f.Bound()*f.Multiple*f.Multiple {
			t.Errorf("%+v of %d × %d: bound %d for size %v", f, c.W, c.H, f.Bound(), c.Size)
		}
	}
}
