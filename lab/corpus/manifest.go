package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train/dataset"
)

// Manifest describes a data set: the document that `mm data build` reads.
// Comments state the default of an absent key.
type Manifest struct {
	Version     int           `json:"version"`
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	Cite        string        `json:"cite,omitempty"`
	Allow       []judge.Class `json:"allow,omitempty"` // A and B
	Sources     []Source      `json:"sources"`
	Where       string        `json:"where,omitempty"`
	MinChars    int           `json:"min_chars,omitempty"`
	MaxChars    int           `json:"max_chars,omitempty"` // no limit
	Dedup       Dedup         `json:"dedup"`
	PII         *PII          `json:"pii,omitempty"` // keep, without counting
	Splits      Splits        `json:"splits"`
	Faults      string        `json:"faults,omitempty"` // Fail

	doc *schemas.Document
}

// Source is a file of documents.
type Source struct {
	ID          string            `json:"id"`
	Path        string            `json:"path"` // below the folder of the manifest
	SHA256      string            `json:"sha256"`
	License     string            `json:"license"`
	Decision    string            `json:"decision,omitempty"`
	Origin      string            `json:"origin,omitempty"`
	Format      string            `json:"format,omitempty"`      // by the name
	Compression string            `json:"compression,omitempty"` // by the name
	Separator   string            `json:"separator,omitempty"`   // dataset.Separator
	Fields      map[string]string `json:"fields,omitempty"`      // text from text
	Where       string            `json:"where,omitempty"`
	Weight      float64           `json:"weight,omitempty"` // 1
}

// The formats and compressions of sources.
const (
	JSONL   = "jsonl"
	Text    = "text"
	Parquet = "parquet"

	None = "none"
	Gzip = "gzip"
	Zstd = "zstd"
)

// The values of Manifest.Faults.
const (
	Fail = "fail"
	Skip = "skip"
)

// Dedup configures the removal of duplicates.
type Dedup struct {
	Exact *bool `json:"exact,omitempty"` // true
	Near  *Near `json:"near,omitempty"`  // none
}

// Near configures the removal of similar documents.
type Near struct {
	Threshold float64 `json:"threshold,omitempty"` // 0.8
	Shingle   int     `json:"shingle,omitempty"`   // 5
}

// PII configures what happens to personal data.
type PII struct {
	Action string     `json:"action"`
	Kinds  []pii.Kind `json:"kinds,omitempty"` // all
	Score  float64    `json:"score,omitempty"` // 0.5
}

// The values of PII.Action.
const (
	Keep  = "keep"
	Drop  = "drop"
	Scrub = "scrub"
)

// Splits are the shares of the splits other than the training split.
type Splits struct {
	Seed    uint64  `json:"seed,omitempty"`
	HeldOut float64 `json:"held_out,omitempty"`
	Test    float64 `json:"test,omitempty"`
}

// Read reads and checks a manifest. It returns the manifest even if the list
// has errors of its content, and nil if it is not readable.
func Read(file string) (*Manifest, diag.List) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return nil, list
	}
	return Parse(file, data)
}

// Parse is Read of the content of a file.
func Parse(file string, data []byte) (*Manifest, diag.List) {
	doc, list := schemas.Load(schemas.Dataset, file, data)
	if doc == nil || list.Failed() {
		return nil, list
	}
	m := &Manifest{doc: doc}
	if err := doc.Decode(m); err != nil {
		list.Add(diag.WrongType, doc.Pos(""), err.Error(), "")
		return nil, list
	}
	m.setDefaults()
	m.check(&list)
	list.Sort()
	return m, list
}

func (m *Manifest) setDefaults() {
	if len(m.Allow) == 0 {
		m.Allow = []judge.Class{judge.PublicDomain, judge.Permissive}
	}
	if m.Dedup.Exact == nil {
		exact := true
		m.Dedup.Exact = &exact
	}
	if n := m.Dedup.Near; n != nil {
		setDefault(&n.Threshold, 0.8)
		setDefault(&n.Shingle, 5)
	}
	if m.PII != nil {
		setDefault(&m.PII.Score, pii.DefaultScore)
	}
	setDefault(&m.Faults, Fail)
	for i := range m.Sources {
		m.Sources[i].setDefaults()
	}
}

// setDefault sets a zero value.
func setDefault[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}

func (s *Source) setDefaults() {
	name := s.Path
	switch path.Ext(name) {
	case ".gz":
		setDefault(&s.Compression, Gzip)
		name = strings.TrimSuffix(name, ".gz")
	case ".zst":
		setDefault(&s.Compression, Zstd)
		name = strings.TrimSuffix(name, ".zst")
	}
	setDefault(&s.Compression, None)
	switch path.Ext(name) {
	case ".jsonl", ".ndjson", ".json":
		setDefault(&s.Format, JSONL)
	case ".parquet":
		setDefault(&s.Format, Parquet)
	case ".txt":
		setDefault(&s.Format, Text)
	}
	setDefault(&s.Weight, 1)
	if s.Format == Text {
		setDefault(&s.Separator, dataset.Separator)
	}
	if len(s.Fields) == 0 {
		s.Fields = map[string]string{textKey: textKey}
	}
}

// The keys of documents.
const (
	textKey     = "text"
	promptKey   = "prompt"
	answerKey   = "answer"
	messagesKey = "messages"
)

// keys returns the keys of the source's documents, sorted.
func (s *Source) keys() []string {
	keys := make([]string, 0, len(s.Fields))
	for k := range s.Fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// pos returns the position of the value at a JSON pointer.
func (m *Manifest) pos(format string, args ...any) diag.Pos {
	return m.doc.Pos(fmt.Sprintf(format, args...))
}

// check adds the faults that the schema does not find.
func (m *Manifest) check(list *diag.List) {
	first := map[string]int{}
	for i := range m.Sources {
		s := &m.Sources[i]
		if j, ok := first[s.ID]; ok {
			list.Add(diag.SourceTwice, m.pos("/sources/%d/id", i), fmt.Sprintf("%q, first in source %d", s.ID, j+1), "")
		} else {
			first[s.ID] = i
		}
		m.checkLicense(i, list)
		m.checkForm(i, list)
		m.checkFilter(s.Where, fmt.Sprintf("/sources/%d/where", i), list)
	}
	m.checkFilter(m.Where, "/where", list)
	if sum := m.Splits.HeldOut + m.Splits.Test; sum >= 1 {
		list.Add(diag.SplitShares, m.pos("/splits"), fmt.Sprintf("held_out %v and test %v", m.Splits.HeldOut, m.Splits.Test), "")
	}
	if m.MaxChars > 0 && m.MinChars > m.MaxChars {
		list.Add(diag.OutOfRange, m.pos("/min_chars"), fmt.Sprintf("got %d, want at most max_chars %d", m.MinChars, m.MaxChars), "")
	}
}

func (m *Manifest) checkLicense(i int, list *diag.List) {
	s := m.Sources[i]
	f := judge.Classify(s.License)
	detail := fmt.Sprintf("source %q: license %q has class %s, allowed %v", s.ID, s.License, f.Class, m.Allow)
	switch {
	case f.Class >= judge.Unclear || !slices.Contains(m.Allow, f.Class):
		list.Add(diag.SourceLicense, m.pos("/sources/%d/license", i), detail, f.Hint)
	case f.Class == judge.Terms && s.Decision == "":
		list.Add(diag.SourceLicense, m.pos("/sources/%d/license", i), detail+", without a decision", "add decision: with the identifier of the decision")
	}
}

func (m *Manifest) checkForm(i int, list *diag.List) {
	s := m.Sources[i]
	at := func(key string) diag.Pos { return m.pos("/sources/%d/%s", i, key) }
	switch {
	case s.Format == "":
		list.Add(diag.SourceFile, at("path"), fmt.Sprintf("unknown format of %q", s.Path), "add format: jsonl, text or parquet")
	case s.Format == Parquet && s.Compression != None:
		list.Add(diag.SourceFile, at("path"), fmt.Sprintf("Parquet in %s", s.Compression), "decompress the file; Parquet compresses its pages itself")
	case s.Format != Text && s.Separator != "":
		list.Add(diag.NotAllowed, at("separator"), "separator of "+s.Format+", want none", "")
	}
	keys := strings.Join(s.keys(), " and ")
	if first := strings.Join(m.Sources[0].keys(), " and "); keys != first {
		list.Add(diag.NotAllowed, at("fields"), "got "+keys+", want "+first+" as in the first source", "")
	}
	switch keys {
	case textKey, messagesKey, "answer and prompt":
	default:
		list.Add(diag.NotAllowed, at("fields"), "got "+keys+", want text, messages, or prompt and answer", "")
	}
	if s.Format == Text && (keys != textKey || s.Fields[textKey] != textKey) {
		list.Add(diag.SourceColumn, at("fields"), "text files have one column, text", "remove fields")
	}
}

func (m *Manifest) checkFilter(text, ptr string, list *diag.List) {
	if text == "" {
		return
	}
	if _, err := NewFilter(text); err != nil {
		list.Add(diag.FilterFault, m.doc.Pos(ptr), err.Error(), "")
	}
}

// Digest returns the SHA-256, in hex, of everything in the manifest that
// affects the data: not of descriptions, comments and the order of keys.
func (m *Manifest) Digest() string {
	c := *m
	c.Description, c.Cite = "", ""
	data, err := json.Marshal(c)
	if err != nil {
		panic("corpus: encoding a manifest: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
