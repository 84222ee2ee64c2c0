package openai

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/encdec"
	"mm-abi.org/mm/runtimes/speech"
	"mm-abi.org/mm/serve/api"
)

// transcriber is a model that writes the text of sounds; runner.Runner implements it.
type transcriber interface {
	Transcriber(ctx context.Context) (*encdec.Model, error)
}

// speaker is a model that converts texts to speech; runner.Runner implements it.
type speaker interface {
	Speaker(ctx context.Context, p speech.Phonemizer) (*speech.Speaker, error)
}

// formats of transcripts.
var formats = []string{"json", "text", "srt", "vtt", "verbose_json"}

// transcribe returns the handler of a task of encdec: transcribe or translate.
func transcribe(task string) func(*api.Call) error {
	return func(c *api.Call) error {
		fields, data, err := c.Form("file")
		if err != nil {
			return err
		}
		format := "json"
		if f := fields.Get("response_format"); f != "" {
			format = f
		}
		switch {
		case !slices.Contains(formats, format):
			return api.Unsupported("response_format", "response_format: got %.40q, want %s", format, strings.Join(formats, ", "))
		case fields.Get("stream") == "true":
			return api.Unsupported("stream", "stream: transcripts are not streamed")
		case slices.Contains(fields["timestamp_granularities"], "word"):
			return api.Unsupported("timestamp_granularities", "timestamp_granularities: got word, want segment")
		}
		m, err := c.Server().Model(fields.Get("model"))
		if err != nil {
			return err
		}
		req := encdec.Request{Task: task, Language: fields.Get("language")}
		if req.Wave, err = preprocess.DecodeSound(data); err != nil {
			return api.Invalid("file", "file: %v", err)
		}
		var out *encdec.Result
		err = c.Borrow(&api.Ask{Model: m}, func(ctx context.Context, s api.Scorer) error {
			out, err = soundText(ctx, s, req, format)
			return fault("file", err)
		})
		if err != nil {
			return err
		}
		return replyTranscript(c, out, format)
	}
}

// soundText transcribes a sound. Time stamps are computed if the format shows them.
func soundText(ctx context.Context, s api.Scorer, req encdec.Request, format string) (out *encdec.Result, err error) {
	t, ok := s.(transcriber)
	if !ok {
		return nil, &runtimes.Unavailable{What: "transcription", Why: "the model does not provide it"}
	}
	m, err := t.Transcriber(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if !m.Audible() {
		return nil, &runtimes.Unavailable{What: "transcription", Why: "the model reads texts"}
	}
	req.Timestamps = format == "srt" || format == "vtt" || format == "verbose_json" && m.Stamps()
	return m.Transcribe(ctx, req, func(string) error { return nil })
}

// fault returns an error of a request for diagnostics, which report inputs.
func fault(field string, err error) error {
	list, ok := diag.From(err)
	if !ok {
		return err
	}
	return api.Invalid(field, "%s: %v", field, list.Err())
}

// segment is a part of a transcript.
type segment struct {
	ID     int     `json:"id"`
	Start  float64 `json:"start"`
	End    float64 `json:"end"`
	Text   string  `json:"text"`
	Tokens []int32 `json:"tokens"`
}

func replyTranscript(c *api.Call, out *encdec.Result, format string) error {
	var b bytes.Buffer
	switch format {
	case "text":
		return c.ReplyText(http.StatusOK, out.Text+"\n")
	case "json":
		return c.Reply(map[string]any{"text": out.Text})
	case "srt", "vtt":
		write, kind := encdec.SRT, "application/x-subrip"
		if format == "vtt" {
			write, kind = encdec.VTT, "text/vtt"
		}
		if err := write(&b, out.Segments); err != nil {
			return err
		}
		return c.Write(http.StatusOK, kind+"; charset=utf-8", b.Bytes())
	}
	segments := []segment{}
	for i, s := range out.Segments {
		segments = append(segments, segment{i, s.Start, s.End, s.Text, s.IDs})
	}
	return c.Reply(map[string]any{"task": out.Task, "language": out.Language, "duration": out.Seconds, "text": out.Text, "segments": segments})
}

// speechRequest is the body of /v1/audio/speech.
type speechRequest struct {
	Model        string  `json:"model"`
	Input        string  `json:"input"`
	Voice        string  `json:"voice"`
	Format       string  `json:"response_format"`
	Speed        float64 `json:"speed"`
	Language     string  `json:"language"`
	Instructions string  `json:"instructions"`
	StreamFormat string  `json:"stream_format"`
}

// synthesize answers speech as a WAV file, or as raw samples of 16 bits.
func synthesize(c *api.Call) error {
	var q speechRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(q.Input) == "":
		return api.Invalid("input", "input: want a text")
	case q.Format != "" && q.Format != "wav" && q.Format != "pcm":
		return api.Unsupported("response_format", "response_format: got %.40q, want wav or pcm", q.Format)
	case q.StreamFormat != "" && q.StreamFormat != "audio":
		return api.Unsupported("stream_format", "stream_format: got %.40q, want audio", q.StreamFormat)
	case q.Instructions != "":
		return api.Unsupported("instructions", "instructions: not supported")
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	wave := &preprocess.Wave{}
	err = c.Borrow(&api.Ask{Model: m}, func(ctx context.Context, s api.Scorer) error {
		t, ok := s.(speaker)
		if !ok {
			return &runtimes.Unavailable{What: "speech", Why: "the model does not provide it"}
		}
		voice, err := t.Speaker(ctx, speech.Espeak{})
		if err != nil {
			return fault("model", err)
		}
		wave.Rate = voice.Rate()
		err = voice.Synthesize(ctx, speech.Request{Text: q.Input, Voice: q.Voice, Speed: q.Speed, Language: q.Language}, func(p speech.Piece) error {
			wave.Samples = append(wave.Samples, p.Samples...)
			return nil
		})
		return fault("input", err)
	})
	switch {
	case err != nil:
		return err
	case q.Format == "pcm":
		return c.Write(http.StatusOK, "audio/pcm", samples(wave.Samples))
	}
	return c.Write(http.StatusOK, "audio/wav", preprocess.EncodeWAV(wave))
}

// samples returns 16-bit samples in little-endian order.
func samples(x []float32) []byte {
	out := make([]byte, 0, 2*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(math.Round(float64(max(-1, min(1, v)))*32767))))
	}
	return out
}
