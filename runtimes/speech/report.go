package speech

import (
	"context"
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/talk"
)

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

// Collect synthesizes a request into one wave, and reports its pieces.
func (s *Speaker) Collect(ctx context.Context, req Request) (*preprocess.Wave, Report, error) {
	report := Report{Part: s.Part().ID(), Voice: s.Voice(req), Rate: s.Rate(), Pieces: []PieceReport{}}
	if !req.Phonemes {
		report.Phonemizer = s.Version(ctx)
	}
	wave := &preprocess.Wave{Rate: s.Rate()}
	err := s.Synthesize(ctx, req, func(piece Piece) error {
		wave.Samples = append(wave.Samples, piece.Samples...)
		report.Add(piece)
		return nil
	})
	return wave, report, err
}

// Lines describes the symbols of each piece, the dropped letters, and the times.
func (r Report) Lines() (lines []string) {
	dropped := ""
	for _, piece := range r.Pieces {
		lines = append(lines, piece.Symbols)
		dropped += piece.Dropped
	}
	if dropped != "" {
		lines = append(lines, fmt.Sprintf("dropped, not in the voice's vocabulary: %q", dropped))
	}
	by := ""
	if r.Phonemizer != "" {
		by = ", phonemes by " + r.Phonemizer
	}
	return append(lines, fmt.Sprintf("backend %s%s; %.2f s of speech in %.2f s", r.Backend, by, r.Seconds, r.MS/1000))
}

// Take joins the texts of a request to a voice that the user named.
func (r *Request) Take(name string, in []talk.Part) error {
	var texts []string
	for _, part := range in {
		if part.Type != abi.Text && part.Type != "" {
			return diag.Usagef("%s takes texts only: --%s is for language models", name, part.Type)
		}
		texts = append(texts, part.Text)
	}
	r.Text = strings.Join(texts, "\n\n")
	return nil
}
