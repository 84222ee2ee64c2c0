// Package modules reads and checks module.yaml, the manifest of a module: an
// encoder, projector, decoder, skill, core, draft core, router, sandbox or adapter.
//
// [Load] reads a manifest from a folder, validates it against its schema and checks
// what a schema cannot express: consistent dimensions, the cap of a projector, the
// token contract, and the declared files. All faults are returned as a diag.List.
package modules

import (
	"os"
	"path/filepath"
	"strconv"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

// FileName is the name of the manifest in a module's folder.
const FileName = "module.yaml"

// Manifest is a module.yaml. The schema of Type determines which fields are set.
type Manifest struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	Type        abi.ModuleType `json:"type"`
	Modality    abi.Modality   `json:"modality,omitempty"`
	ABI         abi.Version    `json:"abi"`
	Description string         `json:"description,omitempty"`
	License     string         `json:"license,omitempty"`

	Tensors
	CoreKeys
	AdapterKeys
	RouterKeys
	SkillKeys

	Params   Figures               `json:"params,omitempty"`
	Caps     Figures               `json:"caps,omitempty"`
	Export   map[abi.Format]Export `json:"export,omitempty"` // paths in the folder
	Quant    *Quant                `json:"quant,omitempty"`
	Requires []abi.Ref             `json:"requires,omitempty"`
	Files    []File                `json:"files,omitempty"`
	Card     string                `json:"card,omitempty"`
	Source   string                `json:"source,omitempty"`
	Datasets []Dataset             `json:"datasets,omitempty"` // of the training; nil: unknown

	doc   *schemas.Document
	dir   string
	legal []string // license and notice files of the folder
}

// Tensors holds the keys of modules with tensors or values as inputs and outputs.
type Tensors struct {
	Inputs      []abi.Port             `json:"inputs,omitempty"`
	Outputs     []abi.Port             `json:"outputs,omitempty"`
	Preprocess  Preprocess             `json:"preprocess,omitempty"`
	State       map[string]State       `json:"state,omitempty"`     // as written; see Carried
	Constants   map[string]Constant    `json:"constants,omitempty"` // by input
	Postprocess map[string]Postprocess `json:"postprocess,omitempty"`
	Sequence    *Sequence              `json:"sequence,omitempty"`   // of a projector
	Confidence  *Confidence            `json:"confidence,omitempty"` // of a projector
	Text        *Text                  `json:"text,omitempty"`       // of an encoder of text
	Speech      *Speech                `json:"speech,omitempty"`     // of a decoder
	Loop        *Loop                  `json:"loop,omitempty"`       // of a decoder
}

// CoreKeys holds the keys of a core and of a draft core.
type CoreKeys struct {
	Tokens       *abi.TokenContract `json:"tokens,omitempty"`
	KVDTypes     []abi.DType        `json:"kv_dtype,omitempty"`
	RopeScaling  string             `json:"rope_scaling,omitempty"`
	ChatTemplate string             `json:"chat_template,omitempty"`
	Golden       []Golden           `json:"golden,omitempty"`
	For          abi.Ref            `json:"for,omitzero"` // the core of a draft core
}

// AdapterKeys holds the keys of an adapter.
type AdapterKeys struct {
	Base    abi.Ref  `json:"base,omitzero"` // the core that it adapts
	Method  string   `json:"method,omitempty"`
	Rank    int      `json:"rank,omitempty"`
	Alpha   float64  `json:"alpha,omitempty"`
	Targets []string `json:"targets,omitempty"`
}

// RouterKeys holds the keys of a router.
type RouterKeys struct {
	ToolCallTokens []string `json:"tool_call_tokens,omitempty"`
	MaxCalls       int      `json:"max_calls,omitempty"`
}

// SkillKeys holds the keys of a skill (Runtime) and of a sandbox (the others).
type SkillKeys struct {
	Runtime *Runtime `json:"runtime,omitempty"`
	Limits  *Limits  `json:"limits,omitempty"`
	Allow   *Allow   `json:"allow,omitempty"`
	Engines []string `json:"engines,omitempty"`
}

// Quant lists the precisions in which a module may be exported, as in
// abi.Precisions or specific to a format.
type Quant struct {
	Supported []string `json:"supported,omitempty"`
}

// File is a file in the module's folder.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // lowercase hex
	Size   int64  `json:"size"`
}

// Dataset is data that a module was trained on. Only its name is required.
type Dataset struct {
	Name    string `json:"name"`
	License string `json:"license,omitempty"` // SPDX expression
	Source  string `json:"source,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // lowercase hex
}

// Golden is a prompt whose greedy continuation must begin with Expect.
type Golden struct {
	Prompt    string `json:"prompt"`
	Expect    string `json:"expect"`
	MaxTokens int    `json:"max_tokens,omitempty"` // if 0, the length of Expect

	// Files of the build's modules, MODULE/PATH, that precede the prompt.
	Image string `json:"image,omitempty"`
	Audio string `json:"audio,omitempty"`
	Video string `json:"video,omitempty"`
}

// Media returns the files of a golden prompt with their modality, in order.
func (g Golden) Media() []GoldenMedia {
	var out []GoldenMedia
	for _, s := range []GoldenMedia{{abi.Image, g.Image}, {abi.Audio, g.Audio}, {abi.Video, g.Video}} {
		if s.File != "" {
			out = append(out, s)
		}
	}
	return out
}

// GoldenMedia is an image, a sound or a video of a golden prompt.
type GoldenMedia struct {
	Modality abi.Modality
	File     string // MODULE/PATH
}

// Figures maps names to numbers, texts and lists, as in params and caps.
type Figures map[string]any

// Int returns the integer with a name.
func (f Figures) Int(name string) (int64, bool) {
	v, ok := f[name].(float64)
	if !ok || v != float64(int64(v)) {
		return 0, false
	}
	return int64(v), true
}

// Load reads the manifest at path, a module.yaml or a folder that contains one. The
// manifest is nil if it cannot be read or violates its schema.
func Load(path string) (*Manifest, diag.List) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	data, list := schemas.ReadFile(path, diag.Unreadable)
	if list.Failed() {
		return nil, list
	}
	m, list := Parse(path, data)
	if m != nil {
		m.dir = filepath.Dir(path)
		m.findLegal(&list)
	}
	return m, list
}

// Parse parses a manifest; file is used only in messages.
func Parse(file string, data []byte) (*Manifest, diag.List) {
	doc, list := schemas.Load(schemas.Module, file, data)
	if list.Failed() {
		return nil, list
	}
	m := &Manifest{doc: doc}
	if err := doc.Decode(m); err != nil {
		list.Add(diag.WrongType, diag.Pos{File: file}, err.Error(), "")
		return nil, list
	}
	m.name()
	list = append(list, m.check()...)
	list.Sort()
	return m, list
}

// NameIn returns the name in a manifest with possible faults, or "" if it is not
// YAML or has no name.
func NameIn(data []byte) string {
	doc, _ := schemas.Parse(FileName, data)
	var head struct {
		Name any `json:"name"`
	}
	if doc == nil || doc.Decode(&head) != nil {
		return ""
	}
	name, _ := head.Name.(string)
	return name
}

// Dir returns the folder of the manifest, or "" after Parse.
func (m *Manifest) Dir() string { return m.dir }

// ID returns name@version.
func (m *Manifest) ID() string { return m.Name + "@" + m.Version }

// Pos returns the position of the value at a JSON pointer.
func (m *Manifest) Pos(ptr string) diag.Pos {
	if m.doc == nil {
		return diag.Pos{}
	}
	return m.doc.Pos(ptr)
}

// TCap returns the maximum number of vectors that a projector produces per input:
// its T_cap (t_cap since MM-ABI 1.1), or the default of the modality.
func (m *Manifest) TCap() int {
	for _, key := range []string{"t_cap", "T_cap"} {
		if n, ok := m.Params.Int(key); ok {
			return int(n)
		}
	}
	n, _ := abi.DefaultCaps(m.Modality)
	return n
}

// Cap returns the maximum number of vectors per input of a modality in this core's
// sequence: its caps, or MM-ABI's default.
func (m *Manifest) Cap(modality abi.Modality) int {
	if n, ok := m.Caps.Int(string(modality)); ok {
		return int(n)
	}
	n, _ := abi.DefaultCaps(modality)
	return n
}

// Contract returns a core's token contract, with MM-ABI's defaults for missing
// values.
func (m *Manifest) Contract() abi.TokenContract {
	if m.Tokens == nil {
		return abi.DefaultTokens()
	}
	return m.Tokens.Fill(abi.DefaultTokens())
}

// Bind binds the sizes in params and caps to their names.
func (m *Manifest) Bind(b *abi.Binding) []*abi.Mismatch {
	var faults []*abi.Mismatch
	for _, section := range []struct {
		name    string
		figures Figures
	}{{"params", m.Params}, {"caps", m.Caps}} {
		for _, key := range sortedKeys(section.figures) {
			n, ok := section.figures.Int(key)
			if !ok || n < 1 {
				continue
			}
			name := key
			if key == "t_cap" {
				name = "T_cap"
			}
			if f := b.Set(m.ID(), name, n, m.ID()+" "+section.name+"."+key); f != nil {
				faults = append(faults, f)
			}
		}
	}
	return faults
}

func pointer(parts ...any) string {
	s := ""
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			s += "/" + v
		case int:
			s += "/" + strconv.Itoa(v)
		}
	}
	return s
}
