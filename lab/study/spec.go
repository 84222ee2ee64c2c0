package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
)

// Spec is a trial: a complete recipe, the step at which it is scored, and the documents
// that score it. Its paths are relative to the folder of the study.
type Spec struct {
	Version int               `json:"version"`
	Recipe  json.RawMessage   `json:"recipe"` // of mm train, with its end in tokens
	Until   int               `json:"until"`  // steps
	Score   string            `json:"score"`  // file of the documents
	Folder  string            `json:"folder"` // of checkpoints
	Files   map[string]string `json:"files"`  // hex SHA-256 of every file that the trial reads
}

// Group returns a name that the trials of a study have in common: a machine that executes
// several of them in one folder reuses tokens and checkpoints.
func (s Spec) Group() string { return digestOf(s.Files[chooseFile], s.Files[tokenizerFile])[:16] }

// Result is the result of a trial. It depends on the spec only.
type Result struct {
	Spec       string    `json:"spec"` // hex SHA-256
	Step       int       `json:"step"`
	Tokens     int       `json:"tokens"`             // of training, from the start
	Parameters int       `json:"parameters"`         // of the model
	Weights    string    `json:"weights,omitempty"`  // hex SHA-256 over the digests of the checkpoint
	Nats       []float64 `json:"nats,omitempty"`     // by document
	Counts     []int     `json:"counts,omitempty"`   // predictions, by document
	Bytes      []int     `json:"bytes,omitempty"`    // by document
	Diverged   string    `json:"diverged,omitempty"` // reason; without losses
}

// The limits of a spec.
const (
	specVersion = 1
	maxSpec     = 1 << 20
)

// parseSpec parses and checks an untrusted spec.
func parseSpec(data []byte) (Spec, train.Config, error) {
	var s Spec
	var cfg train.Config
	if len(data) > maxSpec {
		return s, cfg, fmt.Errorf("trial: got %d bytes, limit %d", len(data), maxSpec)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, cfg, fmt.Errorf("trial: %w", err)
	}
	if s.Version != specVersion {
		return s, cfg, fmt.Errorf("trial: version %d, want %d", s.Version, specVersion)
	}
	for _, p := range append([]string{s.Score, s.Folder}, sortedKeys(s.Files)...) {
		if !schemas.ValidPath(p) {
			return s, cfg, fmt.Errorf("trial: invalid path %q", p)
		}
	}
	cfg, _, err := decodeRecipe("recipe", s.Recipe)
	if err != nil {
		return s, cfg, fmt.Errorf("trial: %w", err)
	}
	cfg = cfg.WithDefaults()
	for _, p := range append(slices.Concat(cfg.Data.Files, cfg.Data.HeldFiles), cfg.Tokenizer.File, s.Score) {
		if s.Files[p] == "" {
			return s, cfg, fmt.Errorf("trial: missing digest of file %q", p)
		}
	}
	if s.Until < 1 || cfg.Stop.Tokens < 1 || s.Until > cfg.Stop.Tokens || cfg.Base != "" || cfg.LoRA != nil {
		return s, cfg, errors.New("trial: want a recipe from the start with an end in tokens, and a step of it")
	}
	return s, cfg, nil
}

// normal returns the recipe without what does not change its result.
func normal(cfg train.Config) train.Config {
	cfg = cfg.WithDefaults()
	cfg.Name, cfg.Threads, cfg.SaveEvery, cfg.Eval, cfg.LogEvery = "", 0, 0, train.Eval{}, 0
	return cfg
}

// digestOf returns the hex SHA-256 of the JSON of values.
func digestOf(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // plain data
		}
		h.Write(append(text, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// oneLine formats an error without line breaks.
func oneLine(err error) string {
	var faults *diag.Faults
	if errors.As(err, &faults) {
		var all []string
		for _, d := range faults.List {
			all = append(all, strings.TrimPrefix(d.Summary+": "+d.Detail, ": "))
		}
		return strings.Join(all, "; ")
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
