package speech

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// languageForm is the form of a voice of espeak-ng.
var languageForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]{2,8}([-+][a-zA-Z0-9]{1,8}){0,3}$`) })

// planned is a piece before its speech.
type planned struct {
	Piece
	list []string // symbols with ids
}

// plan divides a text into pieces.
func (s *Speaker) plan(ctx context.Context, req Request) ([]planned, error) {
	limit := s.spec.MaxIDs
	if limit == 0 {
		limit = defaultIDs
	}
	var out []planned
	for _, sentence := range Sentences(req.Text) {
		text, err := s.spell(ctx, req, sentence)
		if err != nil {
			return nil, err
		}
		list, dropped := s.symbols.split(text)
		for _, p := range pieces(list, limit) {
			piece := Piece{Text: sentence, Symbols: strings.Join(p, ""), IDs: len(p), Dropped: dropped}
			if strings.Trim(piece.Symbols, marks+" ") != "" { // marks alone are silent
				out, dropped = append(out, planned{piece, p}), ""
			}
		}
	}
	if len(out) == 0 {
		var list diag.List
		list.Add(diag.NothingSaid, diag.Pos{}, fmt.Sprintf("%.80q", req.Text), "")
		return nil, list.Err()
	}
	return out, nil
}

// spell writes a sentence in the alphabet of the voice.
func (s *Speaker) spell(ctx context.Context, req Request, sentence string) (string, error) {
	switch {
	case req.Phonemes:
		return sentence, nil
	case s.spec.From == modules.SpeechText:
		return strings.ToLower(sentence), nil
	}
	var out strings.Builder
	for _, part := range spans(sentence) {
		if part.mark {
			out.WriteString(wideMarks.Replace(part.text))
			continue
		}
		text, err := s.phonemes(ctx, part.text, req.Language)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(part.text, " ") && out.Len() > 0 {
			out.WriteString(" ")
		}
		out.WriteString(text)
		if strings.HasSuffix(part.text, " ") {
			out.WriteString(" ")
		}
	}
	return strings.TrimSpace(out.String()), nil
}

// phonemes converts words by the phonemizer.
func (s *Speaker) phonemes(ctx context.Context, text, language string) (string, error) {
	ties := s.spec.From == modules.SpeechKokoro
	err := error(nil)
	if s.phones == nil {
		err = errNoEspeak
	} else {
		var out string
		if out, err = s.phones.Phonemes(ctx, strings.TrimSpace(text), language, ties); err == nil {
			if ties {
				out = kokoro(out, language)
			}
			return out, nil
		}
	}
	if ctx.Err() != nil {
		return "", err
	}
	var list diag.List
	hint := ""
	if errors.Is(err, errNoEspeak) {
		hint = "install espeak-ng (Debian: apt-get install espeak-ng), or pass phonemes with --phonemes"
	}
	list.Add(diag.NoPhonemizer, diag.Pos{}, fmt.Sprintf("%s takes phonemes: %v", s.function.Part().ID(), err), hint)
	return "", list.Err()
}

// compute returns the samples of symbols.
func (s *Speaker) compute(ctx context.Context, req Request, list []string) ([]float32, error) {
	args := map[string]part.Argument{}
	for name, numbers := range s.inputs(req, list) {
		t, err := s.session.Literal(name, numbers)
		if err != nil {
			return nil, fmt.Errorf("input %s of %s: %w", name, s.function.Part().ID(), err)
		}
		args[name] = part.Argument{Input: modality.Input{Tensor: &t}}
	}
	c, err := s.function.Compute(ctx, args)
	if err != nil {
		return nil, err
	}
	t, ok := c.Outputs[s.output]
	if !ok {
		return nil, fmt.Errorf("%s: missing output %q", s.function.Part().ID(), s.output)
	}
	values, err := modality.Numbers(t)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(values))
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s: sample %d is %v, want finite numbers", s.function.Part().ID(), i, v)
		}
		out[i] = float32(v)
	}
	return out, nil
}

// inputs returns the numbers of each input.
func (s *Speaker) inputs(req Request, list []string) map[string][]float64 {
	var ids []float64
	add := func(more []int64) {
		for _, id := range more {
			ids = append(ids, float64(id))
		}
	}
	add(s.spec.Begin)
	for _, symbol := range list {
		add(s.symbols.ids[symbol])
		add(s.spec.After)
	}
	add(s.spec.End)
	in := map[string][]float64{s.spec.IDs: ids}
	if s.spec.Length != "" {
		in[s.spec.Length] = []float64{float64(len(ids))}
	}
	if s.spec.Mask != "" {
		ones := make([]float64, len(ids))
		for i := range ones {
			ones[i] = 1
		}
		in[s.spec.Mask] = ones
	}
	if s.spec.Speed != "" {
		in[s.spec.Speed] = []float64{req.Speed}
	}
	if v := s.spec.Scales; v != nil {
		scales := append([]float64(nil), v.Values...)
		scales[v.Length] /= req.Speed
		in[v.Input] = scales
	}
	if v := s.spec.Voices; v != nil {
		in[v.Input] = s.voices[req.Voice].row(len(list))
	}
	if v := s.spec.Speakers; v != nil {
		in[v.Input] = []float64{float64(v.IDs[req.Voice])}
	}
	return in
}
