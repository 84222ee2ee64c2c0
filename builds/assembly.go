package builds

import (
	"bytes"
	"encoding/json"
	"fmt"

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
	Tokens      abi.TokenContract `json:"tokens"`
	KV          abi.DType         `json:"kv,omitempty"`
	Core        Part              `json:"core"`
	Draft       *Part             `json:"draft,omitempty"`
	DraftTokens int               `json:"draft_tokens,omitempty"`
	Adapters    []AdapterPart     `json:"adapters,omitempty"`
	Modalities  []ModalityPart    `json:"modalities,omitempty"`
	Decoders    []DecoderPart     `json:"decoders,omitempty"`
	Skills      []SkillPart       `json:"skills,omitempty"`
	Router      *RouterPart       `json:"router,omitempty"`
	Sandbox     *SandboxPart      `json:"sandbox,omitempty"`
	Golden      []modules.Golden  `json:"golden,omitempty"`
	Files       []AssemblyPath    `json:"files"`
}

// Part is one module of an assembly.
type Part struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Type     abi.ModuleType    `json:"type"`
	Modality abi.Modality      `json:"modality,omitempty"`
	Digest   string            `json:"digest"`          // of the module's own OCI manifest
	Manifest string            `json:"manifest"`        // path of its module.yaml
	Files    map[string]string `json:"files,omitempty"` // format → path
	Quant    abi.DType         `json:"quant,omitempty"` // precision of the weights here
}

// ID is name@version.
func (p Part) ID() string { return p.Name + "@" + p.Version }

// AdapterPart is an adapter and how strongly it applies.
type AdapterPart struct {
	Part
	Scale float64 `json:"scale"`
}

// ModalityPart is an encoder, its projector and the places one input may take.
type ModalityPart struct {
	Modality  abi.Modality `json:"modality"`
	Encoder   Part         `json:"encoder"`
	Projector Part         `json:"projector"`
	TCap      int          `json:"t_cap"`
}

// DecoderPart is a decoder with its parameters.
type DecoderPart struct {
	Part
	Params map[string]any `json:"params,omitempty"`
}

// SkillPart is a skill and the limits that hold for it here.
type SkillPart struct {
	Part
	Limits modules.Effective `json:"limits"`
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
	Limits modules.Effective `json:"limits"`
}

// AssemblyPath is one file of the target's folder.
type AssemblyPath struct {
	Path      string         `json:"path"`
	Digest    string         `json:"digest"`
	Size      int64          `json:"size"`
	MediaType string         `json:"media_type"`
	Component string         `json:"component,omitempty"` // the module it belongs to
	Role      string         `json:"role"`
	Version   string         `json:"version,omitempty"`
	Format    string         `json:"format,omitempty"`
	Quant     abi.DType      `json:"quant,omitempty"`
	Type      abi.ModuleType `json:"-"`
}

// Parts lists every module of the assembly, the core first.
func (a *Assembly) Parts() []Part {
	parts := []Part{a.Core}
	if a.Draft != nil {
		parts = append(parts, *a.Draft)
	}
	for _, p := range a.Adapters {
		parts = append(parts, p.Part)
	}
	for _, m := range a.Modalities {
		parts = append(parts, m.Encoder, m.Projector)
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

// ParseAssembly reads an assembly.json. It may come from a stranger: unknown
// keys, unsafe paths and parts whose files are not listed are errors.
func ParseAssembly(data []byte) (*Assembly, error) {
	if len(data) > maxAssembly {
		return nil, fmt.Errorf("reading %s: %d bytes are over the limit of %d", AssemblyFile, len(data), maxAssembly)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var a Assembly
	if err := dec.Decode(&a); err != nil {
		return nil, fmt.Errorf("reading %s: %w", AssemblyFile, err)
	}
	listed := map[string]bool{}
	for _, f := range a.Files {
		if !schemas.ValidPath(f.Path) || listed[f.Path] {
			return nil, fmt.Errorf("reading %s: file path %q is unsafe or stands twice", AssemblyFile, f.Path)
		}
		listed[f.Path] = true
	}
	for _, p := range a.Parts() {
		for _, path := range p.Files {
			if !listed[path] {
				return nil, fmt.Errorf("reading %s: %s names %q, which is not among its files", AssemblyFile, p.ID(), path)
			}
		}
	}
	if a.Core.Name == "" {
		return nil, fmt.Errorf("reading %s: no core", AssemblyFile)
	}
	if c := a.Tokens; c.VocabSize < 0 || c.MaxSeq < 0 || c.DModel < 0 {
		return nil, fmt.Errorf("reading %s: negative figure in the token contract", AssemblyFile)
	}
	return &a, nil
}
