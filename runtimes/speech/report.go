package speech

// Report describes the speech that a voice synthesized.
type Report struct {
	Part       string        `json:"part"`
	Backend    string        `json:"backend"`
	Phonemizer string        `json:"phonemizer,omitempty"`
	Voice      string        `json:"voice,omitempty"`
	Rate       int           `json:"sample_rate"`
	Seconds    float64       `json:"seconds"`
	MS         float64       `json:"ms"`
	File       string        `json:"file"`
	Pieces     []PieceReport `json:"pieces"`
}

// PieceReport describes the speech of one sentence.
type PieceReport struct {
	Text    string  `json:"text"`
	Symbols string  `json:"symbols"`
	IDs     int     `json:"ids"`
	Dropped string  `json:"dropped,omitempty"`
	Seconds float64 `json:"seconds"`
	MS      float64 `json:"ms"`
}

// Add adds a piece, of the report's sample rate.
func (r *Report) Add(piece Piece) {
	one := PieceReport{
		Text: piece.Text, Symbols: piece.Symbols, IDs: piece.IDs, Dropped: piece.Dropped,
		Seconds: float64(len(piece.Samples)) / float64(r.Rate), MS: 1000 * piece.Computed.Seconds(),
	}
	r.Pieces = append(r.Pieces, one)
	r.Seconds += one.Seconds
	r.MS += one.MS
}
