package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
)

// checked is the result of validate.
type checked struct {
	OK          bool      `json:"ok"`      // no errors
	Checked     int       `json:"checked"` // documents
	Errors      int       `json:"errors"`
	Warnings    int       `json:"warnings"`
	Diagnostics diag.List `json:"diagnostics"`
	Left        int       `json:"left,omitempty"` // number of faults that are not listed
}

// validate returns the tool for mm validate.
func (s *Server) validate() tool {
	return tool{
		name: "validate", title: "Check documents of mm",
		description: "Checks module.yaml files, graphs (NAME.graph.yaml) and locks, and how the modules of a graph fit each other. " +
			"Gives every fault with its file, line, code and a hint. Nothing is changed.",
		input: []byte(`{"type":"object","properties":{
			"paths":{"type":"array","items":{"type":"string","minLength":1,"maxLength":4096},"maxItems":256,"description":"Documents, or folders of them; all of the root folder where there is none."},
			"files":{"type":"boolean","description":"Also compare each module with its files and their digests."}},"additionalProperties":false}`),
		call: func(ctx context.Context, args []byte) (*sdk.CallToolResult, error) {
			var in struct {
				Paths []string `json:"paths"`
				Files bool     `json:"files"`
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			if len(in.Paths) == 0 {
				in.Paths = []string{"."}
			}
			for i, p := range in.Paths {
				abs, err := s.root.existing(p)
				if err != nil {
					return nil, err
				}
				in.Paths[i] = abs
			}
			return s.check(ctx, in.Paths, in.Files)
		},
	}
}

func (s *Server) check(ctx context.Context, paths []string, files bool) (result *sdk.CallToolResult, err error) {
	w, err := s.open("")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	found, err := w.Validate(ctx, paths, workspace.ValidateOptions{Files: files})
	if err != nil {
		return nil, err
	}
	list := found.Diagnostics
	out := checked{OK: !list.Failed(), Checked: found.Checked, Errors: list.Count(diag.Error), Warnings: list.Count(diag.Warning)}
	out.Diagnostics, out.Left = s.clientFaults(list)
	return structured(out)
}

// assemble returns the tool for mm assemble, without signing.
func (s *Server) assemble() tool {
	return tool{
		name: "assemble", title: "Compose a build", changes: true,
		description: "Checks a graph, exports its modules and composes a build, which is in the store of mm then and, with out, in a folder. " +
			"The build is not signed and goes nowhere. Gives its reference and digests.",
		input: []byte(`{"type":"object","properties":{
			"graph":{"type":"string","minLength":1,"maxLength":4096,"description":"The build.graph.yaml."},
			"out":{"type":"string","minLength":1,"maxLength":4096,"description":"Folder that becomes an OCI image layout with a folder of files for each target."},
			"target":{"type":"string","maxLength":128,"description":"Build only this target of the graph."},
			"locked":{"type":"boolean","description":"Refuse any drift from the lock next to the graph."},
			"keep_going":{"type":"boolean","description":"Leave out targets that cannot be built."}},"required":["graph"],"additionalProperties":false}`),
		call: func(ctx context.Context, args []byte) (*sdk.CallToolResult, error) {
			var in struct {
				Graph, Out, Target string
				Locked             bool
				KeepGoing          bool `json:"keep_going"`
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			opt := assemble.Options{Target: in.Target, KeepGoing: in.KeepGoing, Exporters: s.opt.Exporters}
			var err error
			if opt.Graph, err = s.root.existing(in.Graph); err != nil {
				return nil, err
			}
			if in.Out != "" {
				if opt.Out, err = s.output(in.Out); err != nil {
					return nil, err
				}
			}
			return s.compose(ctx, opt, in.Locked)
		},
	}
}

// output returns a folder that a call may write: a new or empty one, or an OCI layout. In
// other folders a target of the graph could replace a folder of the same name.
func (s *Server) output(name string) (string, error) {
	abs, there, err := s.root.path(name)
	if err != nil || !there || loose.IsLayout(abs) {
		return abs, err
	}
	entries, err := os.ReadDir(abs)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("out %q contains other files: choose a new folder", name)
	}
	return abs, err
}

func (s *Server) compose(ctx context.Context, opt assemble.Options, locked bool) (result *sdk.CallToolResult, err error) {
	w, err := s.open(opt.Graph)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	res := s.opt.Resolve
	res.Locked = res.Locked || locked
	made, err := w.Assemble(ctx, opt, res)
	if err != nil {
		return nil, err
	}
	made.Out = s.root.clientPath(made.Out)
	made.Diagnostics, _ = s.clientFaults(made.Diagnostics)
	return structured(made)
}
