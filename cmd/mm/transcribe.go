package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/encdec"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/speech"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// transcriptFormats are the values of --format of mm run.
var transcriptFormats = []string{"text", "json", "srt", "vtt"}

// transcript holds the options of an encoder-decoder.
type transcript struct {
	req    encdec.Request
	format string
}

// transcriptOptions reads transcriptFlags.
func (p *program) transcriptOptions(c *cli.Context) (transcript, error) {
	t := transcript{format: c.String("format"), req: encdec.Request{Language: c.String("language"), Task: c.String("task"), MaxIDs: c.Int("max-tokens")}}
	if !slices.Contains(transcriptFormats, t.format) {
		return t, diag.Usagef("--format %s: want %s", t.format, strings.Join(transcriptFormats, ", "))
	}
	if p.JSON && t.format == "text" {
		t.format = "json"
	}
	return t, nil
}

// input reads the only input of a request.
func (t *transcript) input(arg string, in []talk.Part) error {
	if len(in) != 1 {
		return diag.Usagef("%s takes one input, got %d", arg, len(in))
	}
	if in[0].Type == abi.Text || in[0].Type == "" {
		t.req.Text = in[0].Text
		return nil
	}
	if in[0].Type != abi.Audio {
		return diag.Usagef("--%s: %s takes sounds or texts", in[0].Type, arg)
	}
	data, err := fsx.ReadFile(in[0].Path, part.MaxInput)
	if err != nil {
		return err
	}
	if t.req.Wave, err = preprocess.DecodeSound(data); err != nil {
		return fmt.Errorf("%s: %w", in[0].Path, err)
	}
	return nil
}

// transcribe writes the text of a sound, or the text that follows from a text.
func (p *program) transcribe(ctx context.Context, w *workspace.Workspace, r *runner.Runner, arg string, in []talk.Part, t transcript) (err error) {
	if err := t.input(arg, in); err != nil {
		return err
	}
	start := time.Now()
	m, err := r.Transcriber(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	p.Note("loaded in %.0f ms", 1000*time.Since(start).Seconds())
	t.req.Timestamps = t.format == "srt" || t.format == "vtt" || t.format == "json" && m.Stamps()
	emit := func(text string) error {
		if t.format != "text" {
			return nil
		}
		_, err := io.WriteString(p.Stdout, text)
		return err
	}
	out, err := m.Transcribe(ctx, t.req, emit)
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	backend, err := m.Backend(ctx)
	if err != nil {
		return err
	}
	if err := p.printTranscript(m.Part().ID(), backend, out, t.format); err != nil {
		return err
	}
	language := ""
	if out.Language != "" {
		language = "; language " + out.Language
	}
	p.Note("backend %s%s; %.1f s of sound in %.2f s (encoder %.2f s, decoder %.2f s, %d ids)",
		backend, language, out.Seconds, (out.Encode + out.Decode).Seconds(), out.Encode.Seconds(), out.Decode.Seconds(), len(out.IDs))
	return nil
}

// printTranscript prints a result in a format.
func (p *program) printTranscript(part, backend string, out *encdec.Result, format string) error {
	switch format {
	case "srt":
		return encdec.SRT(p.Stdout, out.Segments)
	case "vtt":
		return encdec.VTT(p.Stdout, out.Segments)
	case "text":
		_, err := fmt.Fprintln(p.Stdout)
		return err
	}
	return p.PrintJSON(encdec.NewReport(part, backend, out))
}

// speechOptions reads speechFlags.
func speechOptions(c *cli.Context) (speech.Request, error) {
	req := speech.Request{Voice: c.String("voice"), Language: c.String("language"), Phonemes: c.Bool("phonemes"), Speed: c.Float64("speed")}
	if c.IsSet("speed") && !(req.Speed >= speech.MinSpeed && req.Speed <= speech.MaxSpeed) {
		return req, diag.Usagef("--speed %v: want %v to %v", req.Speed, speech.MinSpeed, speech.MaxSpeed)
	}
	asked := req
	asked.Language = "" // also that of an encoder-decoder
	if asked != (speech.Request{}) && c.String("out-audio") == "" {
		return req, diag.Usagef("--voice, --speed and --phonemes require --out-audio")
	}
	return req, nil
}

// synthesize converts the text of a request to speech and writes a WAV file.
func (p *program) synthesize(ctx context.Context, w *workspace.Workspace, r *runner.Runner, arg string, in []talk.Part, req speech.Request, file string) error {
	var texts []string
	for _, part := range in {
		if part.Type != abi.Text && part.Type != "" {
			return diag.Usagef("%s takes texts only: --%s is for language models", arg, part.Type)
		}
		texts = append(texts, part.Text)
	}
	req.Text = strings.Join(texts, "\n\n")
	start := time.Now()
	s, err := r.Speaker(ctx, speech.Espeak{})
	if err != nil {
		return err
	}
	p.Note("loaded in %.0f ms", 1000*time.Since(start).Seconds())
	report := speech.Report{Part: s.Part().ID(), Voice: s.Voice(req), Rate: s.Rate(), File: file, Pieces: []speech.PieceReport{}}
	if !req.Phonemes {
		report.Phonemizer = s.Version(ctx)
	}
	wave := &preprocess.Wave{Rate: s.Rate()}
	err = s.Synthesize(ctx, req, func(piece speech.Piece) error {
		wave.Samples = append(wave.Samples, piece.Samples...)
		report.Add(piece)
		return nil
	})
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	if report.Backend, err = s.Backend(ctx); err != nil {
		return err
	}
	if err := fsx.Replace(file, 0o644, func(to io.Writer) error { _, err := to.Write(preprocess.EncodeWAV(wave)); return err }); err != nil {
		return err
	}
	return show(p, report, nil, p.printSpeech)
}

func (p *program) printSpeech(s speech.Report) error {
	dropped := ""
	for _, piece := range s.Pieces {
		p.Note("%s", piece.Symbols)
		dropped += piece.Dropped
	}
	if dropped != "" {
		p.Note("dropped, not in the voice's vocabulary: %q", dropped)
	}
	by := ""
	if s.Phonemizer != "" {
		by = ", phonemes by " + s.Phonemizer
	}
	p.Note("backend %s%s; %.2f s of speech in %.2f s", s.Backend, by, s.Seconds, s.MS/1000)
	p.Line("%s", s.File)
	return nil
}
