// Package corellm is the backend called core: the language model of package
// core/infer, in pure Go, on any machine. It opens GGUF files with their
// tokenizer inside.
package corellm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
)

// Backend opens language models. The zero value is ready.
type Backend struct{}

// Name is "core".
func (Backend) Name() string { return "core" }

// Probe always finds the backend: it is part of mm.
func (Backend) Probe(context.Context) error { return nil }

// kvTypes are the engine's names of the KV cache types. An 8-bit float is
// stored as 8-bit integers with scales, as assemble has said.
var kvTypes = map[abi.DType]string{"": "", abi.FP32: "f32", abi.FP16: "f16", abi.BF16: "f16", abi.Int8: "q8_0", abi.FP8: "q8_0"}

// OpenGenerator loads the part's GGUF file.
func (Backend) OpenGenerator(_ context.Context, w runtimes.Weights, s runtimes.Settings) (runtimes.Generator, error) {
	path := w.Paths["gguf"]
	if path == "" {
		return nil, &runtimes.Unavailable{What: w.Part.ID(), Why: "the core backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	kv, ok := kvTypes[w.KV]
	if !ok {
		return nil, fmt.Errorf("no KV cache of type %s", w.KV)
	}
	opt := infer.Options{Threads: s.Threads}
	for _, a := range w.Adapters {
		file := a.Paths["gguf"]
		if file == "" {
			return nil, &runtimes.Unavailable{What: a.Part.ID(), Why: "the core backend reads adapters in GGUF, and the target ships none of it", Hint: "export the adapter as GGUF"}
		}
		if scale := float32(a.Scale); scale != 0 { // at 0 it changes nothing
			opt.Adapters = append(opt.Adapters, infer.AdapterOptions{Path: file, Scale: scale})
		}
	}
	model, err := infer.Load(path, opt)
	if err != nil {
		return nil, err
	}
	g, err := open(model, w, kv)
	if err == nil && w.Draft != nil {
		err = g.openDraft(w.Draft, s)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// openDraft loads the model that proposes tokens.
func (g *generator) openDraft(d *runtimes.Draft, s runtimes.Settings) error {
	path := d.Paths["gguf"]
	if path == "" {
		return &runtimes.Unavailable{What: d.Part.ID(), Why: "the core backend reads GGUF, and the target ships none of it", Hint: "assemble with --export gguf=int8"}
	}
	var err error
	if g.draft, err = infer.Load(path, infer.Options{Threads: s.Threads}); err != nil {
		return err
	}
	if have, want := g.draft.Config().Vocab, g.model.Config().Vocab; have != want {
		return fmt.Errorf("draft core %s has %d tokens, the core %d", d.Part.ID(), have, want)
	}
	g.proposed = d.Tokens
	g.drafting, err = g.draft.NewSession(infer.SessionOptions{Context: min(g.session.Context(), g.draft.Config().Context)})
	return err
}

// generator is a session of the engine with its tokenizer.
type generator struct {
	model   *infer.Model
	session *infer.Session
	tok     *tokenizer.Tokenizer // nil: the model works on ids alone
	ends    []int32
	begun   bool // something was fed: the next segment gets no BOS
	text    bool // something other than BOS was fed: a leading space is the text's own

	draft    *infer.Model   // nil: none
	drafting *infer.Session // of draft
	proposed int            // tokens at a time
}

// open makes a generator of a model, which is the generator's to close even
// when there is an error.
func open(model *infer.Model, w runtimes.Weights, kv string) (*generator, error) {
	g := &generator{model: model}
	tok, err := tokenizer.FromGGUF(model.File())
	switch {
	case errors.Is(err, tokenizer.ErrNoVocabulary):
	case err != nil:
		return g, err
	default:
		g.tok = tok
		for id := range int32(model.Config().Vocab) {
			if tok.Ends(id) {
				g.ends = append(g.ends, id)
			}
		}
	}
	if n := w.Tokens.DModel; n != 0 && n != model.Config().Width {
		return g, fmt.Errorf("the file has d_model %d, the assembly %d", model.Config().Width, n)
	}
	length := model.Config().Context
	if n := w.Tokens.MaxSeq; n > 0 && n < length {
		length = n
	}
	g.session, err = model.NewSession(infer.SessionOptions{Context: length, KV: kv})
	return g, err
}

// Feed appends a segment.
func (g *generator) Feed(ctx context.Context, s runtimes.Segment) (int, error) {
	before := g.session.Len()
	var err error
	switch {
	case len(s.Vectors) > 0:
		for _, v := range s.Vectors {
			if len(v) != g.model.Config().Width {
				return 0, fmt.Errorf("a vector of %d numbers for a model of d_model %d", len(v), g.model.Config().Width)
			}
		}
		err = g.session.FeedVectors(ctx, slices.Concat(s.Vectors...))
	case len(s.Tokens) > 0:
		err = g.session.Feed(ctx, s.Tokens)
	default:
		if g.tok == nil {
			return 0, errors.New("the model has no tokenizer: feed token ids")
		}
		text, special := s.Text, false
		if text == "" {
			text, special = s.Marked, true
		}
		ids := g.tok.Encode(text, tokenizer.Options{Add: !g.begun, Special: special})
		ids = g.trimEnd(ids)
		err = g.session.Feed(ctx, ids)
	}
	if errors.Is(err, infer.ErrContext) {
		return 0, fmt.Errorf("%w: max_seq is %d, %d are taken", err, g.session.Context(), before)
	}
	if err != nil {
		return 0, err
	}
	g.begun = true
	g.text = g.text || s.Text != "" || s.Marked != "" || len(s.Tokens)+len(s.Vectors) > 0
	return g.session.Len() - before, nil
}

// user stands for what the user says while a template is rendered.
const user = "\uE000user\uE000"

// Conversation renders the chat template in the model's file around text.
func (g *generator) Conversation(text string) ([]runtimes.Segment, error) {
	source, err := gguf.GetOr(g.model.File(), gguf.KeyChatTemplate, "")
	if err != nil || source == "" || g.tok == nil {
		return nil, err
	}
	rendered, err := chat.Render(source, []chat.Message{{Role: "user", Content: user}}, chat.Options{
		AddGenerationPrompt: true, BOS: g.piece(g.tok.Special().BOS), EOS: g.piece(g.tok.Special().EOS),
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the chat template: %w", err)
	}
	before, after, ok := strings.Cut(rendered, user)
	if !ok {
		return nil, errors.New("rendering the chat template: it leaves out what the user says")
	}
	// The template writes BOS itself, or leaves it to the tokenizer; never twice.
	before = strings.TrimPrefix(before, g.piece(g.tok.Special().BOS))
	if slices.Equal(g.tok.Encode(text, tokenizer.Options{}), g.tok.Encode(text, tokenizer.Options{Special: true})) {
		return []runtimes.Segment{{Marked: before + text + after}}, nil
	}
	return []runtimes.Segment{{Marked: before}, {Text: text}, {Marked: after}}, nil
}

func (g *generator) piece(id int32) string {
	if id == tokenizer.None {
		return ""
	}
	return g.tok.Piece(id)
}

// trimEnd takes away the EOS that some tokenizers put behind a text: the text
// is to be continued.
func (g *generator) trimEnd(ids []int32) []int32 {
	if n := len(ids); n > 1 && ids[n-1] == g.tok.Special().EOS {
		return ids[:n-1]
	}
	return ids
}

// stops gives the engine's reasons the runner's names.
var stops = map[infer.Reason]runtimes.Stop{
	infer.StopLength: runtimes.StopLength, infer.StopContext: runtimes.StopLength,
	infer.StopToken: runtimes.StopEnd, infer.StopString: runtimes.StopWord,
}

// Generate continues the sequence.
func (g *generator) Generate(ctx context.Context, opt runtimes.Generation, emit func(runtimes.Token) error) (runtimes.Stop, error) {
	o := infer.GenerateOptions{
		MaxTokens: opt.MaxTokens, StopTokens: g.ends, StopStrings: opt.Stop,
		Sampler: sample.Options{
			Temperature: float32(opt.Temperature), TopK: opt.TopK, TopP: float32(opt.TopP), MinP: float32(opt.MinP),
			RepeatPenalty: float32(opt.RepetitionPenalty), Seed: opt.Seed,
		},
	}
	if g.drafting != nil {
		o.Draft, o.DraftTokens = g.drafting, g.proposed
	}
	if g.tok != nil {
		d := g.tok.Decoder(tokenizer.DecodeOptions{Continued: g.text})
		o.Decode = d.Next
	}
	stats, err := g.session.Generate(ctx, o, func(t infer.Token) error {
		// A model may draw bytes that are no text; whoever prints them shall
		// not have to care.
		return emit(runtimes.Token{ID: t.ID, Text: strings.ToValidUTF8(t.Text, "\uFFFD")})
	})
	return stops[stats.Reason], err
}

// Close frees the models.
func (g *generator) Close() error {
	err := g.model.Close()
	if g.draft != nil {
		err = errors.Join(err, g.draft.Close())
	}
	return err
}
