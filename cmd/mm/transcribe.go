package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/encdec"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/speech"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// transcript holds the options of an encoder-decoder.
type transcript struct {
	req    encdec.Request
	format string
}

// transcriptOptions reads transcriptFlags.
func (p *program) transcriptOptions(c *cli.Context) (transcript, error) {
	t := transcript{format: c.String("format"), req: encdec.Request{Language: c.String("language"), Task: c.String("task"), MaxIDs: c.Int("max-tokens")}}
	if !slices.Contains(encdec.Formats(), t.format) {
		return t, diag.Usagef("--format %s: want %s", t.format, strings.Join(encdec.Formats(), ", "))
	}
	if p.JSON && t.format == "text" {
		t.format = "json"
	}
	return t, nil
}

// transcribe writes the text of a sound, or the text that follows from a text.
func (p *program) transcribe(ctx context.Context, w *workspace.Workspace, r *runner.Runner, arg string, in []talk.Part, t transcript) (err error) {
	if err := t.req.Take(arg, in); err != nil {
		return err
	}
	start := time.Now()
	m, err := r.Transcriber(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	p.Note("loaded in %.0f ms", 1000*time.Since(start).Seconds())
	t.req.Timestamps = m.StampsFor(t.format)
	out, err := m.Transcribe(ctx, t.req, func(text string) error { return encdec.WritePiece(p.Stdout, t.format, text) })
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	backend, err := m.Backend(ctx)
	if err != nil {
		return err
	}
	if t.format == "json" {
		err = p.PrintJSON(encdec.NewReport(m.Part().ID(), backend, out))
	} else {
		err = out.Write(p.Stdout, t.format)
	}
	if err != nil {
		return err
	}
	p.Note("backend %s", out.Summary(backend))
	return nil
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
	if err := req.Take(arg, in); err != nil {
		return err
	}
	start := time.Now()
	s, err := r.Speaker(ctx, speech.Espeak{})
	if err != nil {
		return err
	}
	p.Note("loaded in %.0f ms", 1000*time.Since(start).Seconds())
	wave, report, err := s.Collect(ctx, req)
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	report.File = file
	if report.Backend, err = s.Backend(ctx); err != nil {
		return err
	}
	if err := fsx.Replace(file, 0o644, func(to io.Writer) error { _, err := to.Write(preprocess.EncodeWAV(wave)); return err }); err != nil {
		return err
	}
	return show(p, report, nil, func(report speech.Report) error {
		for _, line := range report.Lines() {
			p.Note("%s", line)
		}
		return p.Line("%s", file)
	})
}
