package media

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes/talk"
)

// mosaic is the vectors of an image in tiles with padding: side × side of a tile, of
// which rows and columns of the whole are of the image.
type mosaic struct {
	side       int
	grid       preprocess.Grid
	top, left  int
	rows, cols int
	into       [2]int // rows and columns after resizing
}

// mosaicOf returns the mosaic of an image of w × h. More than shrink tiles' vectors
// are resized to fewer; 0: never.
func mosaicOf(g preprocess.Grid, w, h, side, shrink int) mosaic {
	m := mosaic{side: side, grid: g, rows: g.Rows * side, cols: g.Columns * side}
	// The arithmetic of transformers: seven decimals, rounded down.
	scaled := func(n, by int, of int) int {
		return int(math.RoundToEven(float64(n)*(float64(by)/float64(of))*1e7) / 1e7)
	}
	if float64(w)/float64(h) > float64(m.cols)/float64(m.rows) {
		m.top = (m.rows - scaled(h, m.cols, w)) / 2
		m.rows -= 2 * m.top
	} else {
		m.left = (m.cols - scaled(w, m.rows, h)) / 2
		m.cols -= 2 * m.left
	}
	m.into = [2]int{m.rows, m.cols}
	if shrink > 0 {
		if by := math.Sqrt(float64(m.rows*m.cols) / float64(shrink*side*side)); by > 1.1 {
			m.into = [2]int{int(float64(m.rows) / by), int(float64(m.cols) / by)}
		}
	}
	return m
}

// count returns the number of vectors.
func (m *mosaic) count() int { return m.side*m.side + m.into[0]*(m.into[1]+1) }

// join returns the vectors of the overview, which is the last list, followed by the
// rows. A list ends with the vector that ends a row.
func (m *mosaic) join(lists [][]float32, width int) ([]float32, error) {
	if len(lists) != m.grid.Rows*m.grid.Columns+1 {
		return nil, fmt.Errorf("got %d lists of vectors, want %d", len(lists), m.grid.Rows*m.grid.Columns+1)
	}
	n := m.side * m.side
	for _, l := range lists {
		if len(l) != (n+1)*width {
			return nil, fmt.Errorf("got %d numbers for a tile, want %d vectors of %d", len(l), n+1, width)
		}
	}
	overview := lists[len(lists)-1]
	end := overview[n*width:]
	at := func(row, col int) []float32 {
		row, col = row+m.top, col+m.left
		tile := lists[row/m.side*m.grid.Columns+col/m.side]
		i := row%m.side*m.side + col%m.side
		return tile[i*width : (i+1)*width]
	}
	out := slices.Grow(slices.Clone(overview[:n*width]), m.into[0]*(m.into[1]+1)*width)
	for row := range m.into[0] {
		for col := range m.into[1] {
			if m.into == [2]int{m.rows, m.cols} {
				out = append(out, at(row, col)...)
				continue
			}
			y0, y1, y := between(row, m.into[0], m.rows)
			x0, x1, x := between(col, m.into[1], m.cols)
			a, b, c, d := at(y0, x0), at(y0, x1), at(y1, x0), at(y1, x1)
			for i := range width {
				out = append(out, (1-y)*((1-x)*a[i]+x*b[i])+y*((1-x)*c[i]+x*d[i]))
			}
		}
		out = append(out, end...)
	}
	return out, nil
}

// between returns the two of n values that are next to value i of into, and the share
// of the second: linear interpolation of torch.
func between(i, into, n int) (low, high int, share float32) {
	at := max((float32(i)+0.5)*(float32(n)/float32(into))-0.5, 0)
	low = min(int(at), n-1)
	return low, min(low+1, n-1), at - float32(low)
}

// mosaic returns the mosaic of an image, or nil for other inputs.
func (s *Senses) mosaic(p *talk.Part) (*mosaic, error) {
	seq := s.sequence(p.Type)
	if !seq.Mosaic() || p.Type != abi.Image {
		return nil, nil
	}
	joins, _ := s.modality(p.Type)
	spec := divided(s.Build.Manifests[joins.Encoder.Name], func(s *preprocess.Spec) bool { return s.Tiles != nil && s.Tiles.Choose == "pinpoints" })
	side := int(math.Sqrt(float64(max(joins.TCap-1, 0))))
	if spec == nil || side < 1 || side*side != joins.TCap-1 {
		return nil, fmt.Errorf("mosaic of the %s input: want tiles by pinpoints and one vector more than a square, got a maximum of %d", p.Type, joins.TCap)
	}
	w, h, err := imageSize(p)
	if err != nil {
		return nil, err
	}
	m := mosaicOf(spec.Tiles.Grid(w, h), w, h, side, seq.Shrink)
	return &m, nil
}
