// Package encdec runs encoder-decoder models that write text: Whisper, Moonshine and
// other models of speech, and models from text to text such as T5.
//
// A [Model] is a decoder module with a loop block. [Model.Transcribe] computes the
// states of a sound or a text with the encoder and continues the ids of the loop
// with the decoder, whose keys and values are kept between the steps. Sounds longer
// than a window are read in windows, and the time stamps of the ids determine where the
// next one begins, as in transformers.
package encdec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
)

// Limits of a request.
const (
	maxSeconds = 7200    // of sound
	maxText    = 1 << 20 // bytes
)

// Model is an open encoder-decoder. It is safe for concurrent use.
type Model struct {
	function    *part.Function
	spec        *modules.Loop
	prepare     preprocess.Spec // of the input sound
	sound       string          // its name
	inputs      map[string]port // of the encoder
	first, past *file
	words       *tokenizer.Tokenizer
	least       int // ids that scores must have
}

// Request is an input and what to write about it.
type Request struct {
	Wave       *preprocess.Wave // sound, or
	Text       string           // text
	Language   string           // if empty, the model detects it
	Task       string           // if empty, the first of transcribe and the model's
	Timestamps bool
	MaxIDs     int // of a window; if 0, those of the model
}

// Segment is a part of a transcript.
type Segment struct {
	Start, End float64 // in seconds
	Text       string
	IDs        []int32
}

// Result is a transcript, or the text for a text.
type Result struct {
	Text     string
	Language string // if the model has languages
	Task     string
	Seconds  float64 // of sound
	Segments []Segment
	IDs      []int32 // of the text, with time stamps
	Encode   time.Duration
	Decode   time.Duration
}

// Open opens the files of a decoder with a loop block.
func Open(ctx context.Context, f *part.Function) (m *Model, err error) {
	manifest := f.Manifest()
	if manifest == nil || manifest.Loop == nil {
		return nil, fault(diag.NoLoop, f.Part().ID()+" has no loop block", "mm run --input runs it as a function of tensors")
	}
	if _, err := f.Open(ctx); err != nil {
		return nil, err
	}
	m = &Model{function: f, spec: manifest.Loop}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	for _, p := range manifest.Inputs {
		if spec, ok := manifest.Preprocess[p.Name]; ok && spec.IsSound() {
			m.sound, m.prepare = p.Name, spec
		}
	}
	if err := m.vocabulary(); err != nil {
		return m, err
	}
	entry, err := f.Entry()
	if err != nil {
		return m, err
	}
	if m.inputs, _, err = ports(entry); err != nil {
		return m, err
	}
	return m, m.files(ctx)
}

// files opens the files of the decoder.
func (m *Model) files(ctx context.Context) (err error) {
	var list diag.List
	for _, name := range sorted(m.inputs) {
		if !slices.Contains([]string{m.sound, inputIDs, inputMask}, name) || name == inputIDs && m.spec.From != modules.LoopText {
			list.Add(diag.LoopFile, diag.Pos{}, fmt.Sprintf("unknown input %.64q of the encoder", name), "")
		}
	}
	if m.spec.Blank != nil {
		return list.Err()
	}
	if m.past, err = m.open(ctx, m.spec.Past, &list); err != nil {
		return err
	}
	if m.spec.Decoder != "" {
		if m.first, err = m.open(ctx, m.spec.Decoder, &list); err != nil {
			return err
		}
	}
	return list.Err()
}

// vocabulary reads the tokenizer and compares it with the ids of the loop.
func (m *Model) vocabulary() error {
	path, err := m.function.File(m.spec.Tokenizer)
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if m.words, err = tokenizer.FromGGUF(f); err != nil {
		return fmt.Errorf("%s: %w", m.spec.Tokenizer, err)
	}
	ids := slices.Concat(m.spec.Start, m.spec.Stop)
	for _, id := range m.spec.Languages {
		ids = append(ids, id)
	}
	for _, id := range m.spec.Tasks {
		ids = append(ids, id)
	}
	if m.spec.NoTimestamps != nil {
		ids = append(ids, *m.spec.NoTimestamps)
	}
	if m.spec.Blank != nil {
		ids = append(ids, *m.spec.Blank)
	}
	m.least = 1
	for _, id := range ids {
		m.least = max(m.least, int(id)+1)
	}
	return nil
}

// Close frees the files of the decoder. The encoder belongs to its set.
func (m *Model) Close() error {
	var errs []error
	for _, f := range []*file{m.first, m.past} {
		if f != nil && f.model != nil {
			errs = append(errs, f.model.Close())
		}
	}
	return errors.Join(errs...)
}

// Part returns the module.
func (m *Model) Part() builds.Part { return m.function.Part() }

// Backend returns the name of the engine as results show it.
func (m *Model) Backend(ctx context.Context) (string, error) { return m.function.Backend(ctx) }

// Audible reports whether the input is a sound instead of a text.
func (m *Model) Audible() bool { return m.spec.From == modules.LoopAudio }

// Languages returns the languages that a request may name, sorted.
func (m *Model) Languages() []string { return sorted(m.spec.Languages) }

// Transcribe writes the text of a request and passes it to emit as it comes.
func (m *Model) Transcribe(ctx context.Context, req Request, emit func(text string) error) (*Result, error) {
	if err := m.check(&req); err != nil {
		return nil, err
	}
	out := &Result{Language: req.Language, Task: req.Task}
	w := &writer{m: m, req: req, out: out, emit: emit}
	if !m.Audible() {
		return out, w.text(ctx)
	}
	wave, err := req.Wave.ResampleTo(m.prepare.SampleRate)
	if err != nil {
		return nil, err
	}
	out.Seconds = float64(len(wave.Samples)) / float64(wave.Rate)
	if m.prepare.Span != nil {
		return out, w.mel(ctx, wave.Samples)
	}
	return out, w.raw(ctx, wave.Samples)
}

// check completes a request.
func (m *Model) check(req *Request) error {
	s := m.spec
	switch {
	case m.Audible() != (req.Wave != nil), req.Wave != nil && len(req.Wave.Samples) == 0, !m.Audible() && strings.TrimSpace(req.Text) == "":
		return fault(diag.NoLoop, "want one input: "+s.From, "")
	case len(req.Text) > maxText:
		return fault(diag.LoopLong, fmt.Sprintf("got a text of %d bytes, want at most %d", len(req.Text), maxText), "")
	case req.Wave != nil && len(req.Wave.Samples)/max(req.Wave.Rate, 1) > maxSeconds:
		return fault(diag.LoopLong, fmt.Sprintf("got a sound of %d seconds, want at most %d", len(req.Wave.Samples)/max(req.Wave.Rate, 1), maxSeconds), "")
	case req.Timestamps && s.NoTimestamps == nil:
		return fault(diag.LoopTask, m.Part().ID()+" has no time stamps", "use --format text or json")
	}
	if _, ok := s.Languages[req.Language]; !ok && req.Language != "" {
		hint := "the model has no languages: name none"
		if len(s.Languages) > 0 {
			hint = "the languages are " + strings.Join(m.Languages(), ", ")
		}
		return fault(diag.LoopLanguage, fmt.Sprintf("%.64q", req.Language), hint)
	}
	if _, ok := s.Tasks["transcribe"]; ok && req.Task == "" {
		req.Task = "transcribe"
	}
	if _, ok := s.Tasks[req.Task]; !ok && req.Task != "" {
		if req.Task == "transcribe" && m.Audible() {
			req.Task = ""
			return nil
		}
		return fault(diag.LoopTask, fmt.Sprintf("task %.64q", req.Task), "the tasks are "+strings.Join(append(sorted(s.Tasks), "transcribe"), ", "))
	}
	return nil
}

// tensor converts a prepared input.
func tensor(t *preprocess.Tensor) runtimes.Tensor {
	shape := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		shape[i] = int64(d)
	}
	return runtimes.Tensor{Type: runtimes.Elem(t.DType), Shape: shape, Data: t.Data}
}

// Stamps reports whether the model writes time stamps.
func (m *Model) Stamps() bool { return m.spec.NoTimestamps != nil }
