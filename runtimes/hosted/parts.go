package hosted

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// maxFile bounds the bytes of an image or a sound.
const maxFile = 20 << 20

// medium is an image or a sound.
type medium struct {
	kind string // its media type
	data string // base64
}

// mediumOf reads a part that is not text. Kinds lists the media types of the form.
func mediumOf(p talk.Part, form Form, kinds ...string) (medium, error) {
	data := p.Data
	if p.Path != "" {
		var err error
		if data, err = fsx.ReadFile(p.Path, maxFile); err != nil {
			return medium{}, err
		}
	}
	if len(data) > maxFile {
		return medium{}, fmt.Errorf("%s: got %d bytes, limit %d", p.Type, len(data), maxFile)
	}
	kind := http.DetectContentType(data)
	if kind == "audio/wave" {
		kind = "audio/wav"
	}
	if slices.Contains(kinds, kind) {
		return medium{kind, base64.StdEncoding.EncodeToString(data)}, nil
	}
	return medium{}, &runtimes.Unavailable{What: "a file of " + kind, Why: "the form of " + string(form) + " does not support it"}
}

// textOf returns the texts of a turn.
func textOf(m talk.Message) (text string) {
	for _, p := range m.Parts {
		if p.Type == abi.Text || p.Type == "" {
			text += p.Text
		}
	}
	return text
}

// plain reports whether all parts of a turn are text.
func plain(m talk.Message) bool {
	return !slices.ContainsFunc(m.Parts, func(p talk.Part) bool { return p.Type != abi.Text && p.Type != "" })
}

// joined adds the blocks of a turn under a key. Turns of one role become one, as the
// results of several calls must be; a turn of nothing, which servers refuse, is left out.
func joined(turns []map[string]any, role, key string, blocks []any) []map[string]any {
	n := len(turns)
	switch {
	case len(blocks) == 0:
		return turns
	case n > 0 && turns[n-1]["role"] == role:
		turns[n-1][key] = append(turns[n-1][key].([]any), blocks...)
		return turns
	}
	return append(turns, map[string]any{"role": role, key: blocks})
}

// pictures are the media types of images that all forms support.
var pictures = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
