package tower

import (
	"encoding/json"
	"fmt"

	"mm-abi.org/mm/core/preprocess"
)

// rawProcessor holds the keys of preprocessor_config.json.
type rawProcessor struct {
	Resize    *bool      `json:"do_resize"`
	Rescale   *bool      `json:"do_rescale"`
	Normalize *bool      `json:"do_normalize"`
	CenterCut *bool      `json:"do_center_crop"`
	Pad       *bool      `json:"do_pad"`
	Split     *bool      `json:"do_image_splitting"`
	PanScan   *bool      `json:"do_pan_and_scan"`
	Crops     *bool      `json:"crop_to_patches"`
	Resample  *int       `json:"resample"`
	Factor    *float64   `json:"rescale_factor"`
	Mean      *[]float64 `json:"image_mean"`
	Std       *[]float64 `json:"image_std"`
	Size      *edges     `json:"size"`
	Cut       *edges     `json:"crop_size"`
	Tile      *edges     `json:"max_image_size"`
	Most      *int       `json:"max_patches"`
	Pinpoints *[][2]int  `json:"image_grid_pinpoints"`

	MinPixels *int   `json:"min_pixels"`
	MaxPixels *int   `json:"max_pixels"`
	Patch     *edges `json:"patch_size"`
	Merge     *int   `json:"merge_size"`
}

// edges is a size: a number, or an object of its sides.
type edges struct {
	Height   int `json:"height"`
	Width    int `json:"width"`
	Shortest int `json:"shortest_edge"`
	Longest  int `json:"longest_edge"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *edges) UnmarshalJSON(b []byte) error {
	var n int
	if json.Unmarshal(b, &n) == nil {
		*e = edges{Height: n, Width: n, Shortest: n}
		return nil
	}
	type plain edges
	return json.Unmarshal(b, (*plain)(e))
}

// Means and deviations of published image processors.
func clipMean() ([]float64, []float64) {
	return []float64{0.48145466, 0.4578275, 0.40821073}, []float64{0.26862954, 0.26130258, 0.27577711}
}

func halfMean() ([]float64, []float64) { return []float64{0.5}, []float64{0.5} }

// Preprocess reads a preprocessor_config.json into the preprocessing of the
// encoder's input. Absent keys have the defaults of transformers.
func (c Config) Preprocess(data []byte) (preprocess.Spec, error) {
	if c.sound != nil {
		return c.melSpec(data)
	}
	var raw rawProcessor
	if err := json.Unmarshal(data, &raw); err != nil {
		return preprocess.Spec{}, err
	}
	for key, v := range map[string]*bool{"do_resize": raw.Resize, "do_rescale": raw.Rescale, "do_normalize": raw.Normalize} {
		if !or(v, true) {
			return preprocess.Spec{}, fmt.Errorf("unsupported %s: false", key)
		}
	}
	s := preprocess.Spec{Layout: "NCHW", DType: "fp32", Scale: or(raw.Factor, 1.0/255)}
	mean, std := halfMean()
	resample := 3 // bicubic
	switch {
	case c.Family == "llava" || c.Family == "clip" || c.Family == "internvl" || c.newline || c.grid != nil:
		mean, std = clipMean()
	case c.Family == "idefics3" || c.Family == "smolvlm":
		resample = 1 // Lanczos
	case c.Family == "gemma3":
		resample = 2 // bilinear
	}
	s.Mean, s.Std = or(raw.Mean, mean), or(raw.Std, std)
	filters := []string{"nearest", "lanczos", "bilinear", "bicubic"}
	if n := or(raw.Resample, resample); n < 0 || n >= len(filters) {
		return s, fmt.Errorf("unsupported resample %d", n)
	} else {
		s.Resample = filters[n]
	}
	if err := c.picture(&s, &raw); err != nil {
		return s, err
	}
	if faults := s.Check(); len(faults) > 0 {
		return s, faults[0]
	}
	if c.grid != nil {
		return s, nil
	}
	if d := s.Dims(); d[2] != c.Image || d[3] != c.Image {
		return s, fmt.Errorf("pictures of %d × %d for a tower of %d", d[2], d[3], c.Image)
	}
	return s, nil
}

// picture sets how an image is resized or divided.
func (c Config) picture(s *preprocess.Spec, raw *rawProcessor) error {
	square := func() error {
		size := or(raw.Size, edges{Height: c.Image, Width: c.Image})
		s.Resize = []int{size.Height, size.Width}
		if size.Height == 0 || size.Width == 0 {
			return fmt.Errorf("bad size %+v, want height and width", size)
		}
		return nil
	}
	if c.grid != nil {
		return c.fit(s, raw)
	}
	switch c.Family {
	case "llava_next", "llava_onevision":
		return c.pinpoints(s, raw)
	case "idefics3", "smolvlm":
		if !or(raw.Split, true) {
			return fmt.Errorf("unsupported do_image_splitting: false")
		}
		tile := or(raw.Tile, edges{Longest: 364}).Longest
		s.Tiles = &preprocess.Tiles{Size: tile, Choose: "longest", Longest: or(raw.Size, edges{Longest: 4 * 364}).Longest}
		return nil
	case "internvl":
		if or(raw.Crops, false) {
			s.Tiles = &preprocess.Tiles{Size: c.Image, Choose: "aspect", Most: or(raw.Most, 12)}
			return nil
		}
		return square()
	case "llava", "clip":
		if c.class {
			return c.clip(s, raw)
		}
	}
	if or(raw.PanScan, false) {
		return fmt.Errorf("unsupported do_pan_and_scan: true")
	}
	return square()
}

// clip resizes the shorter side and cuts the center.
func (c Config) clip(s *preprocess.Spec, raw *rawProcessor) error {
	if or(raw.Pad, false) {
		return fmt.Errorf("unsupported do_pad: true")
	}
	size := or(raw.Size, edges{Shortest: 224})
	if size.Shortest == 0 {
		if s.Resize = []int{size.Height, size.Width}; size.Height == 0 || size.Width == 0 {
			return fmt.Errorf("bad size %+v, want shortest_edge, or height and width", size)
		}
	} else {
		s.ShortestEdge = size.Shortest
	}
	if cut := or(raw.Cut, edges{Height: 224, Width: 224}); or(raw.CenterCut, true) {
		s.Crop, s.CropRound = []int{cut.Height, cut.Width}, "down"
	}
	return nil
}

// pinpoints divides a picture into tiles, with padding.
func (c Config) pinpoints(s *preprocess.Spec, raw *rawProcessor) error {
	size := or(raw.Size, edges{Height: c.Image, Width: c.Image})
	cut := or(raw.Cut, edges{Height: c.Image, Width: c.Image})
	if v := max(size.Shortest, size.Height); v != c.Image || size.Width != size.Height && size.Width != 0 {
		return fmt.Errorf("got size %+v, want %d of the tower", size, c.Image)
	}
	if or(raw.CenterCut, c.Family == "llava_next") && (cut.Height != c.Image || cut.Width != c.Image) {
		return fmt.Errorf("got crop_size %+v, want %d of the tower", cut, c.Image)
	}
	s.Tiles = &preprocess.Tiles{Size: c.Image, Choose: "pinpoints"}
	if raw.Pinpoints != nil {
		s.Tiles.Pinpoints = *raw.Pinpoints
		return nil
	}
	if c.Family == "llava_next" {
		s.Tiles.Pinpoints = [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}
		return nil
	}
	for rows := range 6 {
		for columns := range 6 {
			s.Tiles.Pinpoints = append(s.Tiles.Pinpoints, [2]int{384 * (rows + 1), 384 * (columns + 1)})
		}
	}
	return nil
}

// fit sets the size of pictures of any size.
func (c Config) fit(s *preprocess.Spec, raw *rawProcessor) error {
	if p := or(raw.Patch, edges{Height: c.Patch, Width: c.Patch}); p.Height != p.Width || p.Height != c.Patch && (c.grid.positions || p.Height != c.Multiple()) {
		return fmt.Errorf("got patch_size %d × %d, want %d of the tower", p.Height, p.Width, c.Patch)
	}
	if !c.grid.positions {
		multiple := c.Multiple()
		if c.grid.one {
			multiple = or(raw.Patch, edges{Height: 16}).Height // the default of transformers
		}
		if multiple != c.Multiple() && multiple != c.Patch {
			return fmt.Errorf("got patch_size %d, want %d of the tower", multiple, c.Patch)
		}
		s.Fit = &preprocess.Fit{Multiple: multiple, Choose: "longest", Longest: or(raw.Size, edges{Longest: 1024}).Longest}
		return nil
	}
	if n := or(raw.Merge, 2); n != c.Shuffle {
		return fmt.Errorf("got merge_size %d, want %d of the tower", n, c.Shuffle)
	}
	size := or(raw.Size, edges{Shortest: 56 * 56, Longest: 28 * 28 * 1280})
	s.Fit = &preprocess.Fit{Multiple: c.Multiple(), Choose: "area", Least: or(raw.MinPixels, size.Shortest), Most: or(raw.MaxPixels, size.Longest)}
	return nil
}
