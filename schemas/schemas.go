// Package schemas reads mm's YAML documents strictly and checks them against
// the JSON Schemas that lie beside this file.
//
// [Parse] turns bytes into a [Document]: one document, no anchors, no aliases,
// no tags, no repeated key, at most 1 MiB and 64 levels. [Document.Validate]
// checks it against the schema of a [Kind] and reports every fault at its line
// and column. [Document.Decode] fills a struct by its json tags, so that no
// other package meets YAML. The schema files carry mm's compatibility promise.
package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/sniff"
)

//go:embed *.schema.json
var files embed.FS

// FS returns the schema files.
func FS() fs.FS { return files }

// Kind is a kind of document, named as its schema file is.
type Kind string

// The kinds of documents.
const (
	Module  Kind = "module"
	Graph   Kind = "graph"
	Lock    Kind = "lock"
	Config  Kind = "config"
	Trust   Kind = "trust"
	Request Kind = "request"
	Train   Kind = "train"
	Stage   Kind = "stage"
	Plan    Kind = "plan"

	Decoding Kind = "decoding" // stage 2
)

// Kinds lists the kinds that have a schema of their own.
func Kinds() []Kind {
	return []Kind{Module, Graph, Lock, Config, Trust, Request, Train, Stage, Plan, Decoding}
}

// Detect says what a document is: by its file name where that is telling,
// otherwise by its top-level keys.
func (d *Document) Detect() (Kind, bool) {
	base := filepath.Base(d.File)
	switch {
	case base == "module.yaml" || base == "module.yml":
		return Module, true
	case strings.HasSuffix(base, ".graph.yaml"), strings.HasSuffix(base, ".graph.yml"):
		return Graph, true
	case strings.HasSuffix(base, ".lock.yaml"), strings.HasSuffix(base, ".lock.yml"):
		return Lock, true
	case base == "mm.yaml":
		return Config, true
	case base == "trust.yaml":
		return Trust, true
	}
	switch {
	case d.Has("/stage"):
		if fmt.Sprint(d.lookup("/stage")) == "2" {
			return Decoding, true
		}
		return Stage, true
	case d.Has("/core"), d.Has("/modalities"), d.Has("/decoders"):
		return Graph, true
	case d.Has("/modules") && d.Has("/graph"):
		return Lock, true
	case d.Has("/rules"):
		return Trust, true
	case d.Has("/type"):
		return Module, true
	}
	return "", false
}

// Load parses and validates one document of a known kind. The document is nil
// when the list holds an error of the profile; those of the schema are told
// beside them.
func Load(kind Kind, file string, data []byte) (*Document, diag.List) {
	doc, list := Parse(file, data)
	if doc == nil {
		return nil, list
	}
	broken := list.Failed()
	list = append(list, doc.Validate(kind)...)
	list.Sort()
	if broken {
		return nil, list
	}
	return doc, list
}

// ReadFile reads a document's bytes. A file that cannot be read, is no regular
// file or is over [MaxBytes] is a fault at code, and costs no more memory than
// the limit. Weights and archives are called by their name.
func ReadFile(file string, code diag.Code) ([]byte, diag.List) {
	var list diag.List
	data, err := fsx.ReadFile(file, MaxBytes)
	head := data
	if errors.Is(err, fsx.ErrTooLarge) {
		head, _ = fsx.ReadHead(file, sniff.Head)
	}
	if kind := sniff.Bytes(head); len(head) > 0 && !readable(kind) {
		list.Add(diag.NotMM, diag.Pos{File: file}, "it is "+string(kind)+", not YAML", hints[kind])
		return nil, list
	}
	if err == nil {
		return data, nil
	}
	var at *fs.PathError
	reason := err.Error()
	if errors.As(err, &at) {
		reason = at.Err.Error()
	}
	hint := ""
	if errors.Is(err, fsx.ErrTooLarge) {
		code, hint = diag.TooLarge, "manifests and graphs are small; check that this is the file you meant"
	}
	list.Add(code, diag.Pos{File: file}, reason, hint)
	return nil, list
}

// readable reports whether a file of the kind may be YAML; what nobody knows
// is left to the parser.
func readable(k sniff.Kind) bool { return k == sniff.Text || k == sniff.Unknown }

// hints say what to do with a file that is no document.
var hints = map[sniff.Kind]string{
	sniff.GGUF:        "mm run FILE runs it; mm module import gguf FILE makes a module of it, which a graph may name",
	sniff.Safetensors: "mm run FILE runs a checkpoint of mm train; other weights are run by the folder they lie in",
	sniff.ONNX:        "name the module.yaml that describes it",
	sniff.Pointer:     "git lfs pull fetches the file",
}
