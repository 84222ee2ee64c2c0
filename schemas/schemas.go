// Package schemas reads mm's YAML documents strictly and validates them against the
// embedded JSON Schemas.
//
// [Parse] parses a [Document]: no anchors, aliases, tags or duplicate keys, at most 1 MiB
// and 64 levels. [Document.Validate] validates it against the schema of a [Kind] and
// reports every fault with its line and column. [Document.Decode] decodes it into a struct
// by its json tags, so that other packages do not deal with YAML. The schema files have
// mm's compatibility promise.
//
// A [Shape] is a JSON Schema from outside, of draft 4 to 2020-12, such as that of a skill's
// arguments. Both kinds are compiled and evaluated here.
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
)

//go:embed *.schema.json
var files embed.FS

// EditorComment returns the last line of a new document: editors with the YAML
// language server complete and check the document by its schema.
func EditorComment(kind Kind) string {
	return fmt.Sprintf("# yaml-language-server: $schema=https://mm-abi.org/schemas/%s.schema.json\n", kind)
}

// FS returns the schema files.
func FS() fs.FS { return files }

// Kind is a kind of document; its value is the name of its schema file.
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

	Preference Kind = "preference" // pairs of answers

	Improvement Kind = "improvement" // rounds of own answers

	Suite   Kind = "suite" // a task of one
	Budgets Kind = "budgets"

	Dataset Kind = "dataset" // sources of training data

	Study Kind = "study"

	Jobs Kind = "jobs" // of mm jobs run
)

// Detect returns the kind of a document, by its file name or its top-level keys.
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
	case base == "budgets.yaml":
		return Budgets, true
	}
	switch {
	case d.Has("/stage"):
		switch fmt.Sprint(d.lookup("/stage")) {
		case "2":
			return Decoding, true
		case "preference":
			return Preference, true
		case "improve":
			return Improvement, true
		}
		return Stage, true
	case d.Has("/core"), d.Has("/modalities"), d.Has("/decoders"):
		return Graph, true
	case d.Has("/modules") && d.Has("/graph"):
		return Lock, true
	case d.Has("/rules"):
		return Trust, true
	case d.Has("/sources"):
		return Dataset, true
	case d.Has("/recipe") && d.Has("/tokens"):
		return Study, true
	case d.Has("/commands"), d.Has("/eval/shards"), d.Has("/data/parts"), d.Has("/build/graph"):
		return Jobs, true
	case d.Has("/task") && (d.Has("/doc_to_target") || d.Has("/include")):
		return Suite, true
	case d.Has("/type"):
		return Module, true
	}
	return "", false
}

// Load parses and validates a document of a known kind. If it violates the profile, the
// document is nil; the list also holds the faults of the schema.
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

// ReadFile reads a document. If the file is unreadable, not a regular file or larger than
// [MaxBytes], the fault has the given code. The memory use is limited. Weights and archives
// are recognized.
func ReadFile(file string, code diag.Code) ([]byte, diag.List) {
	var list diag.List
	data, err := fsx.ReadFile(file, MaxBytes)
	head := data
	if errors.Is(err, fsx.ErrTooLarge) {
		head, _ = fsx.ReadHead(file, fsx.SniffLen)
	}
	if kind := fsx.Sniff(head); len(head) > 0 && !readable(kind) {
		list.Add(diag.NotMM, diag.Pos{File: file}, "got "+string(kind)+", want YAML", hints[kind])
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

// readable reports whether a file of the kind may be YAML; the parser decides about unknown
// files.
func readable(k fsx.FileKind) bool { return k == fsx.Text || k == fsx.Unknown }

// hints are the hints for files that are not documents.
var hints = map[fsx.FileKind]string{
	fsx.GGUF:        "mm run FILE runs it; mm module import gguf FILE makes a module of it, which a graph may name",
	fsx.Safetensors: "mm run FILE runs a checkpoint of mm train; other weights are run by the folder they lie in",
	fsx.ONNX:        "name the module.yaml that describes it",
	fsx.Pointer:     "git lfs pull fetches the file",
}
