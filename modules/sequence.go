package modules

import (
	"strconv"
	"strings"
)

// Sequence describes how the vectors of a projector join the text of the core
// (MM-ABI 1.2). Texts may contain control tokens of the core.
type Sequence struct {
	// Marker is what the core's chat template writes for an input.
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

	// Attention is causal (default), or mutual: the vectors of a run see each other.
	Attention string `json:"attention,omitempty"`
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
