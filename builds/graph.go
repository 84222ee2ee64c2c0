// Package builds parses build.graph.yaml, checks that the modules it names fit
// together, and defines the results: the lock file and the Assembly.
//
// A [Graph] lists the core, encoders, projectors, decoders and skills of a
// build and what is shipped of it. [Graph.Check] compares the manifests of its
// references and reports every reason why they do not fit. A [Lock] pins each
// reference to one digest. An [Assembly] is the resolved build with its files,
// which assemble writes and runtimes runs. The reference graphs, their locks
// and compat.csv are in this folder.
package builds

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
)

// Graph is a build.graph.yaml.
type Graph struct {
	Name        string            `json:"name,omitempty"`    // default: the file's name before .graph.yaml
	Version     string            `json:"version,omitempty"` // default: 0.1.0
	ABI         abi.Version       `json:"abi,omitempty"`
	Description string            `json:"description,omitempty"`
	License     string            `json:"license,omitempty"`
	Core        Core              `json:"core"` // absent in a build of functions: [Graph.HasCore]
	Modalities  []Modality        `json:"modalities,omitempty"`
	Decoders    []Decoder         `json:"decoders,omitempty"`
	Skills      []Skill           `json:"skills,omitempty"`
	Runtime     Runtime           `json:"runtime"`
	Exports     map[string]Target `json:"exports,omitempty"`
	Golden      []modules.Golden  `json:"golden,omitempty"`

	File string `json:"-"`
	doc  *schemas.Document
}

// Core is the language model of a build.
type Core struct {
	LLM struct {
		Ref     abi.Ref   `json:"ref"`
		DModel  int       `json:"d_model,omitempty"`
		KVDType abi.DType `json:"kv_dtype,omitempty"`
		MaxSeq  int       `json:"max_seq,omitempty"` // 0: the core's
		Backend string    `json:"backend,omitempty"` // the engine; "": the first that can
	} `json:"llm"`
	Draft *struct {
		Ref    abi.Ref `json:"ref"`
		Tokens int     `json:"tokens,omitempty"` // proposed at a time; 0: the runtime's choice
	} `json:"draft,omitempty"`
	Adapters []struct {
		Ref   abi.Ref  `json:"ref"`
		Scale *float64 `json:"scale,omitempty"` // nil: 1
	} `json:"adapters,omitempty"`
}

// Modality is an encoder with its projector. An encoder without one is a function
// next to the core.
type Modality struct {
	Enc struct {
		Ref     abi.Ref `json:"ref"`
		Backend string  `json:"backend,omitempty"`
	} `json:"enc"`
	Proj struct {
		Ref     abi.Ref `json:"ref"`
		TCapOld int     `json:"T_cap,omitempty"`
		TCapNew int     `json:"t_cap,omitempty"`
		OutDim  int     `json:"out_dim,omitempty"`
		Backend string  `json:"backend,omitempty"`
	} `json:"proj"`
}

// Projects reports whether there is a projector.
func (m Modality) Projects() bool { return m.Proj.Ref.Name != "" }

// TCap returns the graph's cap for the projector, or 0.
func (m Modality) TCap() int { return max(m.Proj.TCapOld, m.Proj.TCapNew) }

// Decoder is a decoder and the parameters it runs with.
type Decoder struct {
	Ref     abi.Ref
	Backend string
	Params  map[string]any
}

// UnmarshalJSON reads ref and backend and leaves every other key in Params.
func (d *Decoder) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &d.Params); err != nil {
		return err
	}
	ref, _ := d.Params["ref"].(string)
	if err := d.Ref.UnmarshalText([]byte(ref)); err != nil {
		return err
	}
	d.Backend, _ = d.Params["backend"].(string)
	delete(d.Params, "ref")
	delete(d.Params, "backend")
	return nil
}

// Skill is a tool that the core may call, with limits of the graph.
type Skill struct {
	Ref    abi.Ref         `json:"ref"`
	Limits *modules.Limits `json:"limits,omitempty"`
}

// Runtime names the router and the sandbox.
type Runtime struct {
	Router *struct {
		Ref            abi.Ref  `json:"ref"`
		ToolCallTokens []string `json:"tool_call_tokens,omitempty"`
		MaxCalls       int      `json:"max_calls,omitempty"`
	} `json:"router,omitempty"`
	Sandbox *struct {
		Ref abi.Ref `json:"ref"`
		modules.Limits
	} `json:"sandbox,omitempty"`
}

// Parse parses a graph; file provides the default name and the positions of
// diagnostics.
func Parse(file string, data []byte) (*Graph, diag.List) {
	doc, list := schemas.Load(schemas.Graph, file, data)
	if list.Failed() {
		return nil, list
	}
	g := &Graph{File: file, doc: doc}
	if err := doc.Decode(g); err != nil {
		list.Add(diag.WrongType, diag.Pos{File: file}, err.Error(), "")
		return nil, list
	}
	if g.Name == "" {
		g.Name = stem(file)
	}
	if !abi.ValidName(g.Name) {
		list.Add(diag.WrongForm, diag.Pos{File: file}, fmt.Sprintf("invalid name %q, from the file's name", g.Name), "add name: to the graph")
		return nil, list
	}
	for name, t := range g.Exports {
		for i := range t.Exports {
			t.Exports[i].Ptr = "/exports/" + name + "/" + string(t.Exports[i].Format)
		}
	}
	if g.Version == "" {
		g.Version = "0.1.0"
	}
	if g.ABI == "" {
		g.ABI = abi.V1_0
	}
	return g, list
}

func stem(file string) string {
	base := filepath.Base(file)
	for _, ext := range []string{".graph.yaml", ".graph.yml", ".yaml", ".yml"} {
		if s, ok := strings.CutSuffix(base, ext); ok {
			return s
		}
	}
	return base
}

// LockFile is the path of the lock that belongs to the graph.
func (g *Graph) LockFile() string {
	return filepath.Join(filepath.Dir(g.File), stem(g.File)+".lock.yaml")
}

// Pos is the place of the value at a JSON pointer.
func (g *Graph) Pos(ptr string) diag.Pos {
	if g.doc == nil {
		return diag.Pos{File: g.File}
	}
	return g.doc.Pos(ptr)
}

// HasCore reports whether the build has a language model. A build without one
// is a set of functions.
func (g *Graph) HasCore() bool { return g.Core.LLM.Ref.Name != "" }

// Node is one reference of the graph: its position and the allowed module
// types.
type Node struct {
	Ref     abi.Ref
	Type    abi.ModuleType
	Ptr     string // JSON pointer of the mapping that holds ref
	Backend string // the engine that the graph asks for; "": any
}

// Nodes lists every reference in the order of the graph: core, draft,
// adapters, then each encoder with its projector, decoders, skills, router,
// sandbox.
func (g *Graph) Nodes() []Node {
	var nodes []Node
	add := func(ref abi.Ref, t abi.ModuleType, ptr string) { nodes = append(nodes, Node{ref, t, ptr, ""}) }
	on := func(backend string) { nodes[len(nodes)-1].Backend = backend }
	if g.HasCore() {
		add(g.Core.LLM.Ref, abi.Core, "/core/llm")
		on(g.Core.LLM.Backend)
	}
	if g.Core.Draft != nil {
		add(g.Core.Draft.Ref, abi.DraftCore, "/core/draft")
	}
	for i, a := range g.Core.Adapters {
		add(a.Ref, abi.Adapter, fmt.Sprintf("/core/adapters/%d", i))
	}
	for i, m := range g.Modalities {
		add(m.Enc.Ref, abi.Encoder, fmt.Sprintf("/modalities/%d/enc", i))
		on(m.Enc.Backend)
		if m.Projects() {
			add(m.Proj.Ref, abi.Projector, fmt.Sprintf("/modalities/%d/proj", i))
			on(m.Proj.Backend)
		}
	}
	for i, d := range g.Decoders {
		add(d.Ref, abi.Decoder, fmt.Sprintf("/decoders/%d", i))
		on(d.Backend)
	}
	for i, s := range g.Skills {
		add(s.Ref, abi.Skill, fmt.Sprintf("/skills/%d", i))
	}
	if r := g.Runtime.Router; r != nil {
		add(r.Ref, abi.Router, "/runtime/router")
	}
	if s := g.Runtime.Sandbox; s != nil {
		add(s.Ref, abi.Sandbox, "/runtime/sandbox")
	}
	return nodes
}

// Targets lists the names of the graph's export targets, sorted.
func (g *Graph) Targets() []string {
	var names []string
	for name := range g.Exports {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
