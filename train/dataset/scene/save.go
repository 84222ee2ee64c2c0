package scene

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// MaxSaved is the maximum number of scenes that Save writes.
const MaxSaved = 1 << 20

// List is the file in a folder of scenes that describes them, one JSON line per
// scene.
const List = "scenes.jsonl"

// line is a scene in List.
type line struct {
	File      string   `json:"file,omitempty"`
	Frames    []string `json:"frames,omitempty"` // of a video, in a subfolder
	Kind      string   `json:"kind"`
	Caption   string   `json:"caption"`
	Questions []Pair   `json:"questions"`
	Draw      string   `json:"draw,omitempty"`
	Truth     Truth    `json:"truth"`
}

// Save writes the first n scenes of a source into a folder: a PNG for each, a
// subfolder of them for a video, and List, which is written last. A folder with
// a list is refused.
func Save(ctx context.Context, dir string, s *Source, n int) (err error) {
	if n < 1 || n > MaxSaved {
		return fmt.Errorf("write scenes: got %d, want 1 to %d", n, MaxSaved)
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return fmt.Errorf("write scenes: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Root().Lstat(List); err == nil {
		return fmt.Errorf("write scenes: %s: %w", filepath.Join(dir, List), fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write scenes: %w", err)
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		sc := s.Make(i)
		l := line{Kind: sc.Kind, Caption: sc.Caption, Questions: sc.Questions, Draw: sc.Draw, Truth: sc.Truth}
		if err := sc.save(d, i, &l); err != nil {
			return fmt.Errorf("write scene %d: %w", i, err)
		}
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("write scene %d: %w", i, err)
		}
	}
	if err := d.WriteFile(List, lines.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write scenes: %w", err)
	}
	return nil
}

// save writes the images and stores their paths in l.
func (sc *Scene) save(d *fsx.Dir, i int, l *line) error {
	if sc.Frames == nil {
		l.File = fmt.Sprintf("%06d.png", i)
		return savePNG(d, l.File, sc.RGB, sc.W, sc.H)
	}
	clip := fmt.Sprintf("%06d", i)
	if err := d.MkdirAll(clip, 0o755); err != nil {
		return err
	}
	for k, frame := range sc.Frames {
		l.Frames = append(l.Frames, fmt.Sprintf("%s/%02d.png", clip, k))
		if err := savePNG(d, l.Frames[k], frame, sc.W, sc.H); err != nil {
			return err
		}
	}
	return nil
}

// savePNG writes an image [h, w, 3].
func savePNG(d *fsx.Dir, name string, rgb []byte, w, h int) error {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for at := 0; at < w*h; at++ {
		copy(img.Pix[4*at:], rgb[3*at:3*at+3])
		img.Pix[4*at+3] = 255
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return err
	}
	return d.WriteFile(name, b.Bytes(), 0o644)
}
