package coreml

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
)

// The paths in a package.
const (
	manifestPath = "Manifest.json"
	modelPath    = "Data/com.apple.CoreML/model.mlmodel"
	weightsPath  = "Data/com.apple.CoreML/weights/weight.bin"
)

// File is a file of a package.
type File struct {
	Path  string
	Write func(w io.Writer) error
}

// Files returns the files of the package, its manifest first. Its identifiers are
// derived from the model, so equal programs have equal bytes.
func (p *Program) Files() ([]File, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("coreml: %w", err)
	}
	model := p.encode()
	sum := sha256.New()
	sum.Write(model)
	if err := p.weights.writeTo(sum); err != nil {
		return nil, err
	}
	manifest, err := manifest(sum.Sum(nil), len(p.weights.blobs) > 0)
	if err != nil {
		return nil, err
	}
	raw := func(data []byte) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}
	}
	files := []File{{manifestPath, raw(manifest)}, {modelPath, raw(model)}}
	if len(p.weights.blobs) > 0 {
		files = append(files, File{weightsPath, p.weights.writeTo})
	}
	return files, nil
}

// item is an entry of the manifest.
type item struct {
	Author      string `json:"author"`
	Description string `json:"description"`
	Name        string `json:"name"`
	Path        string `json:"path"`
}

// listing is the manifest of a package.
type listing struct {
	Version string          `json:"fileFormatVersion"`
	Items   map[string]item `json:"itemInfoEntries"`
	Root    string          `json:"rootModelIdentifier"`
}

const author = "com.apple.CoreML"

func manifest(sum []byte, weights bool) ([]byte, error) {
	model := identifier(sum, "model")
	l := listing{Version: "1.0.0", Root: model, Items: map[string]item{
		model: {author, "CoreML Model Specification", "model.mlmodel", author + "/model.mlmodel"},
	}}
	if weights {
		l.Items[identifier(sum, "weights")] = item{author, "CoreML Model Weights", "weights", author + "/weights"}
	}
	data, err := json.MarshalIndent(l, "", "    ")
	return append(data, '\n'), err
}

// identifier returns a UUID (version 8, RFC 9562) of a part of the package.
func identifier(sum []byte, part string) string {
	h := sha256.Sum256(append(append([]byte{}, sum...), part...))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
