package openai

import (
	"bytes"
	"cmp"
	"fmt"
	"image/png"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// maxImages is the limit of images in an answer.
const maxImages = 10

// imageRequest is the body of /v1/images/generations.
type imageRequest struct {
	Model        string  `json:"model"`
	Prompt       string  `json:"prompt"`
	N            *int    `json:"n"`
	Size         string  `json:"size"`
	Format       string  `json:"response_format"`
	OutputFormat string  `json:"output_format"`
	Quality      string  `json:"quality"`
	Style        string  `json:"style"`
	Background   string  `json:"background"`
	Stream       bool    `json:"stream"`
	Seed         *uint64 `json:"seed"` // of the first image; the next ones count on
}

// check refuses what would change the images.
func (q *imageRequest) check() error {
	switch {
	case q.Prompt == "":
		return api.Invalid("prompt", "prompt: want a text")
	case q.N != nil && (*q.N < 1 || *q.N > maxImages):
		return api.Invalid("n", "n: got %d, want 1 to %d", *q.N, maxImages)
	case q.Format != "" && q.Format != "b64_json":
		return api.Unsupported("response_format", "response_format: got %.40q, want b64_json", q.Format)
	case q.OutputFormat != "" && q.OutputFormat != "png":
		return api.Unsupported("output_format", "output_format: got %.40q, want png", q.OutputFormat)
	case q.Quality != "" && q.Quality != "auto" && q.Quality != "standard":
		return api.Unsupported("quality", "quality: got %.40q, want auto", q.Quality)
	case q.Style != "":
		return api.Unsupported("style", "style: not supported")
	case q.Background != "" && q.Background != "auto" && q.Background != "opaque":
		return api.Unsupported("background", "background: got %.40q, want opaque", q.Background)
	case q.Stream:
		return api.Unsupported("stream", "stream: not supported")
	}
	return nil
}

// generate answers images that the decoder of a build draws.
func generate(c *api.Call) error {
	var q imageRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	n, seed, list := 1, uint64(0), []map[string]any{}
	if q.N != nil {
		n = *q.N
	}
	if q.Seed != nil {
		seed = *q.Seed
	}
	var size string
	prompt, generated := 0, 0
	for i := range n {
		ask := &api.Ask{Model: m}
		ask.Request.Inputs = []talk.Part{{Type: abi.Text, Text: q.Prompt}}
		ask.Request.Outputs = []string{string(abi.Image)}
		ask.Request.Preferences.Seed = seed + uint64(i)
		a, err := c.Answer(ask, nil)
		if err != nil {
			return err
		}
		if len(a.Made) != 1 {
			return fmt.Errorf("got %d images, want 1", len(a.Made))
		}
		if size, err = sized(a.Made[0].Data, q.Size); err != nil {
			return err
		}
		p, _, g := a.Usage()
		prompt, generated = prompt+p, generated+g
		list = append(list, map[string]any{"b64_json": a.Made[0].Data})
	}
	usage := map[string]any{"input_tokens": prompt, "output_tokens": generated, "total_tokens": prompt + generated}
	return c.Reply(map[string]any{"created": c.Server().Now().Unix(), "data": list, "output_format": "png", "size": size, "background": "opaque", "usage": usage})
}

// sized returns the size of a PNG file, which must be the requested one.
func sized(data []byte, want string) (string, error) {
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	got := fmt.Sprintf("%dx%d", config.Width, config.Height)
	if want = cmp.Or(want, "auto"); want != "auto" && want != got {
		return "", api.Unsupported("size", "size: got %.40q, want %s, which the decoder draws", want, got)
	}
	return got, nil
}
