package modules

import "maps"

// Runtime describes how a skill runs; exactly one engine is set.
type Runtime struct {
	Container string  `json:"container,omitempty"` // reference of an OCI image
	Wasm      string  `json:"wasm,omitempty"`
	Starlark  string  `json:"starlark,omitempty"`
	Python    string  `json:"python,omitempty"`
	Builtin   string  `json:"builtin,omitempty"`
	Process   string  `json:"process,omitempty"`
	MCP       *MCP    `json:"mcp,omitempty"`
	Agent     string  `json:"agent,omitempty"` // reference of a build
	Limits    *Limits `json:"limits,omitempty"`
	Allow     *Allow  `json:"allow,omitempty"`
}

// MCP describes a skill that is a set of tools of an MCP server.
type MCP struct {
	Command string   `json:"command"` // file of the module
	Args    []string `json:"args,omitempty"`
	Tool    string   `json:"tool"`
	Tools   string   `json:"tools_sha256"`   // of the list of tools, lowercase hex
	Text    string   `json:"text,omitempty"` // the output that contains the text of an answer; if empty, answers are structured
}

// Programs returns the files of the engine by their key.
func (r *Runtime) Programs() map[string]string {
	all := map[string]string{"wasm": r.Wasm, "starlark": r.Starlark, "python": r.Python, "process": r.Process}
	if r.MCP != nil {
		all["mcp"] = r.MCP.Command
	}
	maps.DeleteFunc(all, func(_, path string) bool { return path == "" })
	return all
}

// Engine returns the key of the engine and its value: a file, or the name of the
// program.
func (r *Runtime) Engine() (key, value string) {
	for key, path := range r.Programs() {
		return key, path
	}
	for _, e := range [][2]string{{"builtin", r.Builtin}, {"container", r.Container}, {"agent", r.Agent}} {
		if e[1] != "" {
			return e[0], e[1]
		}
	}
	return "", ""
}
