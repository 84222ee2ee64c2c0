package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// mediaDir is the folder of images and sounds below the results.
const mediaDir = "media"

// MaxMedium bounds an image or a sound of a question in bytes.
const MaxMedium = 64 << 20

// Recorded is an image or a sound of a question in the folder of results.
type Recorded struct {
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	File   string `json:"file"` // below the results

	source string
}

// recorded returns the images and sounds of the documents by their ids, and the digest of
// the documents with them.
func (t *Task) recorded() (map[int][]Recorded, string, error) {
	if t.image == nil && t.audio == nil {
		return nil, t.digest, nil
	}
	out := map[int][]Recorded{}
	sum := sha256.New()
	fmt.Fprintln(sum, t.digest)
	for _, d := range t.docs {
		list, err := t.mediaOf(d)
		if err != nil {
			return nil, "", t.failed(diag.SuiteDoc, err)
		}
		for _, m := range list {
			data, err := fsx.ReadFile(m.Path, MaxMedium)
			if err != nil {
				return nil, "", t.failed(diag.SuiteDoc, fmt.Errorf("document %d: %w", d.id, err))
			}
			digits := hash(data)
			fmt.Fprintln(sum, digits)
			out[d.id] = append(out[d.id], Recorded{Kind: m.Kind, Digest: "sha256:" + digits, File: path.Join(mediaDir, digits+strings.ToLower(filepath.Ext(m.Path))), source: m.Path})
		}
	}
	return out, hex.EncodeToString(sum.Sum(nil)), nil
}

// record adds the images and sounds to the samples of an outcome.
func (o *Outcome) record(media map[int][]Recorded, data string) {
	o.Data = data
	for i := range o.Samples {
		o.Samples[i].Media = media[o.Samples[i].ID]
	}
}

// writeMedia copies the images and sounds of samples into the folder of results.
func writeMedia(dir string, outcomes []*Outcome) error {
	done := map[string]bool{}
	for _, o := range outcomes {
		for _, s := range o.Samples {
			for _, m := range s.Media {
				if m.source == "" || done[m.File] {
					continue
				}
				data, err := fsx.ReadFile(m.source, MaxMedium)
				if err != nil {
					return err
				}
				if "sha256:"+hash(data) != m.Digest {
					return fmt.Errorf("%s: changed during the run", m.source)
				}
				if err := makeDir(filepath.Join(dir, mediaDir)); err != nil {
					return err
				}
				if err := fsx.WriteFile(filepath.Join(dir, filepath.FromSlash(m.File)), data, 0o644); err != nil {
					return err
				}
				done[m.File] = true
			}
		}
	}
	return nil
}
