// Package speech synthesizes speech with decoders that have a speech block: voices such as
// those of Kokoro, Piper and other VITS models.
//
// A [Speaker] divides a text into sentences, converts each to phonemes by a
// [Phonemizer], these to ids by the module's own table, and computes the samples of
// each sentence with the decoder. Without a phonemizer the text must be phonemes.
package speech

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
)

// Limits of a request.
const (
	maxText      = 1 << 20 // bytes
	maxSeconds   = 3600    // of speech
	MinSpeed     = 0.25
	MaxSpeed     = 4
	defaultIDs   = 4096
	defaultVoice = "en-us" // of espeak-ng
)

// Speaker synthesizes speech with one decoder. It is safe for concurrent use.
type Speaker struct {
	function *part.Function
	spec     *modules.Speech
	session  *modality.Session
	symbols  *symbols
	voices   map[string]voice
	names    []string
	phones   Phonemizer
	output   string
}

// Request is a text and its voice.
type Request struct {
	Text     string
	Phonemes bool    // the text is in the alphabet of the voice
	Voice    string  // if empty, the first
	Language string  // voice of espeak-ng; if empty, that of the voice or the module
	Speed    float64 // if 0, 1
}

// Piece is the speech of a sentence or, if that is long, of a part of it.
type Piece struct {
	Text     string // sentence
	Symbols  string // symbols of the text, in the alphabet of the voice
	IDs      int
	Dropped  string    // letters of Symbols without an id
	Samples  []float32 // with the pause before it
	Computed time.Duration
}

// Open opens a decoder and reads the files of its speech block.
func Open(ctx context.Context, f *part.Function, p Phonemizer) (*Speaker, error) {
	m := f.Manifest()
	if m == nil || m.Speech == nil {
		var list diag.List
		list.Add(diag.NoSpeech, diag.Pos{}, f.Part().ID(), "mm run --input runs it as a function of tensors")
		return nil, list.Err()
	}
	if _, err := f.Open(ctx); err != nil {
		return nil, err
	}
	s := &Speaker{function: f, spec: m.Speech, phones: p, voices: map[string]voice{}, output: m.Speech.Output}
	if s.output == "" && len(m.Outputs) > 0 {
		s.output = m.Outputs[0].Name
	}
	var err error
	if s.session, err = f.Session(); err != nil {
		return nil, err
	}
	if s.session.Rate() == 0 {
		return nil, fmt.Errorf("%s: unknown sample rate: add sample_rate to the manifest's caps", f.Part().ID())
	}
	var list diag.List
	s.readSymbols(&list)
	s.readVoices(&list)
	return s, list.Err()
}

// Rate returns the number of samples in a second.
func (s *Speaker) Rate() int { return s.session.Rate() }

// Voices returns the names of the voices, sorted; none if there is only one.
func (s *Speaker) Voices() []string { return slices.Clone(s.names) }

// Version returns the name and the version of the phonemizer, or "" without one.
func (s *Speaker) Version(ctx context.Context) string {
	if s.phones == nil || s.spec.From == modules.SpeechText {
		return ""
	}
	v, err := s.phones.Version(ctx)
	if err != nil {
		return ""
	}
	return v
}

func (s *Speaker) readSymbols(list *diag.List) {
	file, err := s.function.File(s.spec.Symbols)
	var data []byte
	if err == nil {
		data, err = fsx.ReadFile(file, maxSymbolsFile)
	}
	if err == nil {
		s.symbols, err = parseSymbols(data)
	}
	if err != nil {
		list.Add(diag.BadSymbols, diag.Pos{File: s.spec.Symbols}, reason(err), "")
	}
}

func (s *Speaker) readVoices(list *diag.List) {
	if sp := s.spec.Speakers; sp != nil {
		s.names = slices.Sorted(maps.Keys(sp.IDs))
	}
	v := s.spec.Voices
	if v == nil {
		return
	}
	size := s.width(v.Input)
	for _, name := range v.Files {
		file, err := s.function.File(name)
		var found map[string]voice
		if err == nil {
			found, err = readVoices(file, name, size)
		}
		if err != nil {
			list.Add(diag.BadVoices, diag.Pos{File: name}, reason(err), "")
		}
		for _, voice := range slices.Sorted(maps.Keys(found)) {
			if _, twice := s.voices[voice]; twice && err == nil {
				list.Add(diag.BadVoices, diag.Pos{File: name}, fmt.Sprintf("duplicate voice %q", voice), "")
			}
			s.voices[voice] = found[voice]
		}
	}
	s.names = slices.Sorted(maps.Keys(s.voices))
}

// width returns the number of values of an input.
func (s *Speaker) width(input string) int {
	n := 1
	side := s.function.Side()
	if dims, ok := side.Dims[input]; ok {
		for _, d := range dims {
			n *= int(min(max(d, 1), 1<<20))
		}
		return min(n, 1<<20)
	}
	for _, p := range side.Manifest.Inputs {
		if p.Name == input {
			for _, d := range p.Shape {
				n *= int(min(max(d.Size, 1), 1<<20))
			}
		}
	}
	return min(max(n, 1), 1<<20)
}

// Synthesize computes the speech of a text and passes each piece to emit, in order.
func (s *Speaker) Synthesize(ctx context.Context, req Request, emit func(Piece) error) error {
	req, err := s.complete(req)
	if err != nil {
		return err
	}
	list, err := s.plan(ctx, req)
	if err != nil {
		return err
	}
	total, limit := 0, maxSeconds*s.Rate()
	for i, p := range list {
		start := time.Now()
		samples, err := s.compute(ctx, req, p.list)
		if err != nil {
			return err
		}
		p.Computed = time.Since(start)
		if i > 0 {
			p.Samples = make([]float32, s.spec.PauseMS*s.Rate()/1000)
		}
		p.Samples = append(p.Samples, samples...)
		if total += len(p.Samples); total > limit {
			return tooLong(fmt.Sprintf("got more than %d seconds of speech", maxSeconds))
		}
		if err := emit(p.Piece); err != nil {
			return err
		}
	}
	return nil
}

func tooLong(detail string) error {
	var list diag.List
	list.Add(diag.SpeechLong, diag.Pos{}, detail, "divide the text")
	return list.Err()
}

// complete checks a request and sets its defaults.
func (s *Speaker) complete(req Request) (Request, error) {
	if len(req.Text) > maxText {
		return req, tooLong(fmt.Sprintf("got a text of %d bytes, want at most %d", len(req.Text), maxText))
	}
	if req.Speed == 0 {
		req.Speed = 1
	}
	if !(req.Speed >= MinSpeed && req.Speed <= MaxSpeed) {
		return req, fmt.Errorf("speed %v: want %v to %v", req.Speed, MinSpeed, MaxSpeed)
	}
	if req.Voice = s.Voice(req); req.Voice != "" && !slices.Contains(s.names, req.Voice) {
		var list diag.List
		hint := "the module has one voice: request none"
		if len(s.names) > 0 {
			hint = "the voices are " + some(s.names)
		}
		list.Add(diag.VoiceUnknown, diag.Pos{}, req.Voice, hint)
		return req, list.Err()
	}
	if req.Language == "" {
		req.Language = s.spec.Language
		if l := s.spec.Languages[req.Voice[:min(1, len(req.Voice))]]; l != "" {
			req.Language = l
		}
	}
	if req.Language == "" {
		req.Language = defaultVoice
	}
	if !languageForm().MatchString(req.Language) {
		return req, fmt.Errorf("language %q: want a voice of espeak-ng such as en-us", req.Language)
	}
	return req, nil
}

// some names the first few of a list.
func some(names []string) string {
	if len(names) > 40 {
		return strings.Join(names[:40], ", ") + fmt.Sprintf(" and %d more", len(names)-40)
	}
	return strings.Join(names, ", ")
}

// Part returns the decoder.
func (s *Speaker) Part() builds.Part { return s.function.Part() }

// Backend returns the name of the engine as results show it.
func (s *Speaker) Backend(ctx context.Context) (string, error) { return s.function.Backend(ctx) }

// Voice returns the voice that a request gets, or "" if there is only one.
func (s *Speaker) Voice(req Request) string {
	if req.Voice == "" && len(s.names) > 0 {
		return s.names[0]
	}
	return req.Voice
}
