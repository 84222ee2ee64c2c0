package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/speech"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

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
