package builds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

// AssemblyFile is the name of the assembly in a target's folder.
const AssemblyFile = "assembly.json"

// maxAssembly bounds an assembly.json in bytes.
const maxAssembly = 4 << 20

// Assembly is a resolved build for one target: which part plays which role,
// and which file holds it. Paths are relative to the target's folder.
type Assembly struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	ABI         abi.Version       `json:"abi"`
	Target      string            `json:"target"`
	Description string            `json:"description,omitempty"`
	License     string            `json:"license,omitempty"` // of all parts together
	Tokens      abi.TokenContract `json:"tokens,omitzero"`
	KV          abi.DType         `json:"kv,omitempty"`
	Core        Part              `json:"core,omitzero"` // zero: see [Assembly.HasCore]
	Draft       *Part             `json:"draft,omitempty"`
	DraftTokens int               `json:"draft_tokens,omitempty"`
	Adapters    []AdapterPart     `json:"adapters,omitempty"`
	Modalities  []ModalityPart    `json:"modalities,omitempty"`
	Decoders    []DecoderPart     `json:"decoders,omitempty"`
	Skills      []SkillPart       `json:"skills,omitempty"`
	Router      *RouterPart       `json:"router,omitempty"`
	Sandbox     *SandboxPart      `json:"sandbox,omitempty"`
	Golden      []modules.Golden  `json:"golden,omitempty"`
}

// Part is one module of an assembly.
type Part struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Type     abi.ModuleType `json:"type"`
	Modality abi.Modality   `json:"modality,omitempty"`
	Digest   string         `json:"digest"`            // of the module's OCI manifest
	Manifest string         `json:"manifest"`          // path of its module.yaml
	Files    Formats        `json:"files,omitempty"`   // nil: nothing of it but its documents is here
	Quant    string         `json:"quant,omitempty"`   // precision of the weights here, in the exporter's words
	Backend  string         `json:"backend,omitempty"` // the engine that the graph asks for; "": the first that can
}

// Formats are a part's files by format, in each the entry first: the file that
// an engine opens.
type Formats map[string][]string

// Entry returns the path that an engine opens in a format; "" if there is
// none.
func (f Formats) Entry(format abi.Format) string {
	if paths := f[string(format)]; len(paths) > 0 {
		return paths[0]
	}
	return ""
}

// UnmarshalJSON reads a list of paths for each format, or one path, as
// assemblies had it when a format was one file.
func (f *Formats) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*f = Formats{}
	for format, value := range raw {
		var paths []string
		if len(value) > 0 && value[0] == '"' {
			paths = make([]string, 1)
			if err := json.Unmarshal(value, &paths[0]); err != nil {
				return err
			}
		} else if err := json.Unmarshal(value, &paths); err != nil {
			return err
		}
		if len(paths) == 0 {
			return fmt.Errorf("no file of format %q", format)
		}
		(*f)[format] = paths
	}
	return nil
}

// ID is name@version; the name alone of a file that has no version.
func (p Part) ID() string {
	if p.Version == "" {
		return p.Name
	}
	return p.Name + "@" + p.Version
}

// AdapterPart is an adapter and how strongly it applies.
type AdapterPart struct {
	Part
	Scale float64 `json:"scale"`
}

// ModalityPart is an encoder, its projector and the positions of one input.
// Without a projector the encoder is a function: the core gets nothing of it.
type ModalityPart struct {
	Modality  abi.Modality `json:"modality"`
	Encoder   Part         `json:"encoder"`
	Projector Part         `json:"projector,omitzero"`
	TCap      int          `json:"t_cap,omitempty"`
}

// Projects reports whether there is a projector.
func (m ModalityPart) Projects() bool { return m.Projector.Name != "" }

// DecoderPart is a decoder with its parameters.
type DecoderPart struct {
	Part
	Params map[string]any `json:"params,omitempty"`
}

// SkillPart is a skill and the limits that hold for it here.
type SkillPart struct {
	Part
	Limits modules.Effective `json:"limits"`
	Allow  *modules.Allow    `json:"allow,omitempty"` // the permissions that it asks for; nil: none
}

// Asks returns the permissions that the skill asks for. Only the user grants
// them.
func (p SkillPart) Asks() modules.Allow {
	if p.Allow == nil {
		return modules.Allow{}
	}
	return *p.Allow
}

// RouterPart is the router and the tokens around a tool call.
type RouterPart struct {
	Part
	ToolCallTokens []string `json:"tool_call_tokens,omitempty"`
	MaxCalls       int      `json:"max_calls,omitempty"`
}

// SandboxPart is the sandbox and its limits.
type SandboxPart struct {
	Part
	Limits  modules.Effective `json:"limits"`
	Engines []string          `json:"engines,omitempty"` // that skills may run on; nil: any
	Allow   *modules.Allow    `json:"allow,omitempty"`   // the permissions that the user may grant a skill at most; nil: any
}

// HasCore reports whether the build has a language model. A build without one
// is a set of functions.
func (a *Assembly) HasCore() bool { return a.Core.Name != "" }

// Parts lists every module of the assembly, the core first.
func (a *Assembly) Parts() []Part {
	var parts []Part
	if a.HasCore() {
		parts = append(parts, a.Core)
	}
	if a.Draft != nil {
		parts = append(parts, *a.Draft)
	}
	for _, p := range a.Adapters {
		parts = append(parts, p.Part)
	}
	for _, m := range a.Modalities {
		parts = append(parts, m.Encoder)
		if m.Projects() {
			parts = append(parts, m.Projector)
		}
	}
	for _, p := range a.Decoders {
		parts = append(parts, p.Part)
	}
	for _, p := range a.Skills {
		parts = append(parts, p.Part)
	}
	if a.Router != nil {
		parts = append(parts, a.Router.Part)
	}
	if a.Sandbox != nil {
		parts = append(parts, a.Sandbox.Part)
	}
	return parts
}

// Encode writes the assembly as indented JSON with sorted maps.
func (a *Assembly) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil {
		return nil, fmt.Errorf("writing %s: %w", AssemblyFile, err)
	}
	return buf.Bytes(), nil
}

// ParseAssembly parses an untrusted assembly.json: unknown keys and unsafe
// paths are errors.
func ParseAssembly(data []byte) (*Assembly, error) {
	if len(data) > maxAssembly {
		return nil, fmt.Errorf("reading %s: %d bytes are over the limit of %d", AssemblyFile, len(data), maxAssembly)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var read struct {
		Assembly
		Listed json.RawMessage `json:"files"` // older assemblies list the target's files, as its manifest does
	}
	if err := dec.Decode(&read); err != nil {
		return nil, fmt.Errorf("reading %s: %w", AssemblyFile, err)
	}
	a := read.Assembly
	for _, p := range a.Parts() {
		for _, format := range slices.Sorted(maps.Keys(p.Files)) {
			for _, path := range p.Files[format] {
				if !schemas.ValidPath(path) {
					return nil, fmt.Errorf("reading %s: %s names %q, which is not a path inside the target's folder", AssemblyFile, p.ID(), path)
				}
			}
		}
		if p.Manifest != "" && !schemas.ValidPath(p.Manifest) {
			return nil, fmt.Errorf("reading %s: %s names %q, which is not a path inside the target's folder", AssemblyFile, p.ID(), p.Manifest)
		}
	}
	for _, g := range a.Golden {
		for _, f := range g.Media() {
			if !schemas.ValidPath(f.File) {
				return nil, fmt.Errorf("reading %s: a golden prompt names %q, which is not a path inside the target's folder", AssemblyFile, f.File)
			}
		}
	}
	if err := a.whole(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", AssemblyFile, err)
	}
	if c := a.Tokens; c.VocabSize < 0 || c.MaxSeq < 0 || c.DModel < 0 {
		return nil, fmt.Errorf("reading %s: negative figure in the token contract", AssemblyFile)
	}
	return &a, nil
}

// whole refuses an assembly that lacks a part which others need.
func (a *Assembly) whole() error {
	if !a.HasCore() && (a.Draft != nil || len(a.Adapters) > 0 || len(a.Skills) > 0 || a.Router != nil || len(a.Modalities)+len(a.Decoders) == 0) {
		return errors.New("no core")
	}
	for _, m := range a.Modalities {
		if m.Encoder.Name == "" {
			return fmt.Errorf("no encoder of %q", m.Modality)
		}
	}
	return nil
}
