package exporttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
)

// The text that judges of language models continue.
const (
	languageWindow    = 96
	languagePositions = 16
	languagePrompt    = 21 // tokens, not a multiple of what prefill reads
	languageTokens    = 64
)

// languageRow is a line of the judge's list.
type languageRow struct {
	Model     string   `json:"model"`
	Format    string   `json:"format"`
	Precision string   `json:"precision"`
	Stateful  bool     `json:"stateful"`
	Path      string   `json:"path,omitempty"`
	Record    any      `json:"record,omitempty"`
	Prompt    []int32  `json:"prompt"`
	Tokens    []int32  `json:"tokens"` // of the backend core, most likely first
	Refused   string   `json:"refused,omitempty"`
	Files     []string `json:"files,omitempty"`
}

// Language exports every model of the folder MM_LANGUAGE, NAME.gguf, in every
// precision. Results are in out/FORMAT, described by out/FORMAT-language.json, with
// the tokens that the backend core generates.
func Language(t *testing.T, x export.Lowered) {
	dir := os.Getenv("MM_LANGUAGE")
	if dir == "" {
		t.Skip("MM_LANGUAGE is not set; make exports sets it")
	}
	models, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []languageRow
	for _, path := range models {
		prompt, tokens := greedy(t, path)
		base := languageRow{Model: strings.TrimSuffix(filepath.Base(path), ".gguf"), Format: string(x.Format()), Prompt: prompt, Tokens: tokens}
		for _, precision := range precisions(x.Form) {
			r := base
			r.Precision = precision
			writeLanguage(t, x, path, filepath.Join(dir, "out", r.Format, precision), export.LanguageOptions{}, &r)
			rows = append(rows, r)
		}
		if !x.Stateful() {
			continue
		}
		for _, precision := range []string{"fp32", "int8"} {
			r := base
			r.Precision, r.Stateful = precision, true
			writeLanguage(t, x, path, filepath.Join(dir, "out", r.Format, precision+"-stateful"), export.LanguageOptions{Stateful: true}, &r)
			rows = append(rows, r)
		}
	}
	text, err := json.MarshalIndent(rows, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "out", string(x.Format())+"-language.json"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func writeLanguage(t *testing.T, x export.Lowered, path, out string, o export.LanguageOptions, r *languageRow) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o.Window, o.Positions = languageWindow, languagePositions
	files, record, err := x.WriteLanguage(t.Context(), f, r.Model, r.Precision, o)
	if err != nil {
		r.Refused = err.Error()
		return
	}
	r.Record = record
	for _, file := range files {
		to := filepath.Join(out, filepath.FromSlash(file.Path))
		r.Files = append(r.Files, to)
		if err := save(to, file); err != nil {
			t.Fatal(err)
		}
	}
	r.Path = r.Files[0]
}

// greedy returns a prompt and what the backend core continues it with, with 32-bit
// keys and values.
func greedy(t *testing.T, path string) (prompt, tokens []int32) {
	t.Helper()
	m, err := infer.Load(path, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range languagePrompt {
		prompt = append(prompt, int32((7+i*i*31)%m.Config().Vocab))
	}
	s, err := m.NewSession(infer.SessionOptions{Context: languageWindow, KV: "f32"})
	if err == nil {
		err = s.Feed(t.Context(), prompt)
	}
	for range languageTokens {
		if err != nil {
			t.Fatal(err)
		}
		logits := s.Logits()
		best := int32(slices.Index(logits, slices.Max(logits)))
		tokens = append(tokens, best)
		err = s.Feed(t.Context(), []int32{best})
	}
	return prompt, tokens
}
