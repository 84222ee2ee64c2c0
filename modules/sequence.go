package modules

import (
	"strconv"
	"strings"
)

// Sequence describes how the vectors of a projector join the text of the core
// (MM-ABI 1.2). Texts may contain control tokens of the core.
type Sequence struct {
	// Marker is the text of the core's chat template for an input.
	Marker string `json:"marker,omitempty"`
	Open   string `json:"open,omitempty"`  // before an input
	Close  string `json:"close,omitempty"` // after it

	// Texts of an input in tiles: before each tile, with {row} and {col} from 1,
	// after each row, and before the overview. Alone is the text before an input of
	// one tile.
	Tile     string `json:"tile,omitempty"`
	RowEnd   string `json:"row_end,omitempty"`
	Overview string `json:"overview,omitempty"`
	Alone    string `json:"alone,omitempty"`

	// Runs is inputs (default), or rows: each row of vectors is a run, with RowEnd
	// between rows; or mosaic: an image in tiles with padding is one run, the vectors
	// of the overview followed by those of the image in the tiles, row by row, each row
	// ended by the last vector of the projector.
	Runs string `json:"runs,omitempty"`
	// Shrink is the limit of vectors of a mosaic in tiles: one with more is resized to
	// it; 0: none.
	Shrink int `json:"shrink,omitempty"`
	// Positions is line (default), or grid: positions have a row and a column.
	Positions string `json:"positions,omitempty"`
	// Deep is the number of first layers for which a vector carries a further one.
	Deep int `json:"deep,omitempty"`
	// Attention is causal (default); mutual: the vectors of a run see each other; or
	// prefix: all positions of a prompt with such an input do.
	Attention string `json:"attention,omitempty"`
}

// Grid reports whether the positions of the vectors have rows and columns.
func (s *Sequence) Grid() bool { return s != nil && s.Positions == "grid" }

// ByRow reports whether each row of vectors is a run.
func (s *Sequence) ByRow() bool { return s != nil && s.Runs == "rows" }

// Mosaic reports whether the tiles of an image are one run.
func (s *Sequence) Mosaic() bool { return s != nil && s.Runs == "mosaic" }

// Prefix reports whether the positions of a prompt see each other.
func (s *Sequence) Prefix() bool { return s != nil && s.Attention == "prefix" }

// Rows returns the texts before, between and after the rows of an input.
func (s *Sequence) Rows(n int) []string {
	out := []string{s.Open}
	for range n - 1 {
		out = append(out, s.RowEnd)
	}
	return append(out, s.Close)
}

// VectorWidth returns the numbers of a vector of a projector for a core of width
// d_model.
func (m *Manifest) VectorWidth(width int64) int64 {
	if m.Sequence != nil {
		return width * int64(1+m.Sequence.Deep)
	}
	return width
}

// Mutual reports whether the vectors of a run see each other.
func (s *Sequence) Mutual() bool { return s != nil && s.Attention == "mutual" }

// Texts returns the texts before, between and after the runs of an input in a grid
// of tiles with an overview; without rows there is one run.
func (s *Sequence) Texts(rows, columns int) []string {
	if rows == 0 {
		return []string{s.Open + s.Alone, s.Close}
	}
	var out []string
	text := s.Open
	for row := range rows {
		for column := range columns {
			text += strings.NewReplacer("{row}", strconv.Itoa(row+1), "{col}", strconv.Itoa(column+1)).Replace(s.Tile)
			out, text = append(out, text), ""
		}
		text = s.RowEnd
	}
	return append(out, text+s.Overview, s.Close)
}
