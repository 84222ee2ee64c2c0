package suite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// mediaOf returns the images and sounds of a document: columns with a path, relative to
// the task file, or a list of paths.
func (t *Task) mediaOf(d *item) ([]Medium, error) {
	var out []Medium
	for _, m := range []struct {
		kind string
		f    *field
	}{{"image", t.image}, {"audio", t.audio}} {
		if m.f == nil {
			continue
		}
		var names []string
		if m.f.constant != nil && json.Unmarshal(m.f.constant, &names) == nil { // a list of columns
			for _, name := range names {
				paths := texts(d.fields[name])
				out = append(out, t.media(m.kind, paths)...)
			}
			continue
		}
		raw, err := m.f.of(t, d)
		if err != nil {
			return nil, err
		}
		paths := texts(raw)
		if len(paths) == 0 {
			return nil, fmt.Errorf("%s of document %d: got %.60s, want a path", m.f.key, d.id, raw)
		}
		out = append(out, t.media(m.kind, paths)...)
	}
	return out, nil
}

func (t *Task) media(kind string, paths []string) (out []Medium) {
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(filepath.Dir(t.doc.File), filepath.FromSlash(p))
		}
		out = append(out, Medium{Kind: kind, Path: p})
	}
	return out
}
