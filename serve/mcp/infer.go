package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace"
)

const (
	maxText  = 128 << 10 // bytes of an answer's text; longer text is cut and marked
	maxMedia = 4 << 20   // bytes of the images and sounds of one answer
)

// inferInput is a call of infer: a request and the build.
type inferInput struct {
	Build    string `json:"build"`
	Target   string `json:"target"`
	Function string `json:"function"`
	runner.Request
}

// inferOutput is the result of infer.
type inferOutput struct {
	Build     string              `json:"build"` // NAME@VERSION
	Text      string              `json:"text"`
	Cut       bool                `json:"cut,omitempty"` // the text was truncated
	Reasoning string              `json:"reasoning,omitempty"`
	Called    []runner.CallRecord `json:"called,omitempty"` // calls of skills with their results
	Calls     []talk.Call         `json:"calls,omitempty"`  // left to the client
	Stop      string              `json:"stop"`
	Prompt    int                 `json:"prompt_tokens"`
	Generated int                 `json:"generated_tokens"`
	PerSecond float64             `json:"tokens_per_second"`
	Made      []string            `json:"made,omitempty"` // media types of the contents that follow the text
}

// infer returns the tool for mm run.
func (s *Server) infer() tool {
	return tool{
		name: "infer", title: "Ask a build",
		description: "Has a build answer a request: texts, pictures and sounds go in, in their order, a text comes out, " +
			"and pictures or sounds where outputs says so. Artifacts are verified before they are used.",
		input: s.requestSchema(),
		call: func(ctx context.Context, args []byte) (*sdk.CallToolResult, error) {
			var in inferInput
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, fmt.Errorf("reading the request: %w", err)
			}
			if in.Build == "" {
				if in.Build, in.Target = s.opt.Build, s.opt.Target; in.Build == "" {
					return nil, errors.New("missing build: want a reference or a path below the root folder")
				}
			}
			for i, part := range in.Inputs {
				if part.Path == "" {
					continue
				}
				var err error
				if in.Inputs[i].Path, err = s.root.existing(part.Path); err != nil {
					return nil, err
				}
			}
			return s.answer(ctx, in)
		},
	}
}

// requestSchema returns the schema of a request, extended by the build.
func (s *Server) requestSchema() []byte {
	data, err := fs.ReadFile(schemas.FS(), string(schemas.Request)+".schema.json")
	var doc map[string]any
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		panic(err) // the schema is embedded
	}
	for _, key := range []string{"$id", "$schema", "title"} {
		delete(doc, key)
	}
	description := "A reference (p-lite:0.1.0), or a path below the root folder: a graph, a folder of assemble, a model."
	if s.opt.Build != "" {
		description += " Without it: " + s.opt.Build + "."
	} else {
		doc["required"] = append(doc["required"].([]any), "build")
	}
	properties := doc["properties"].(map[string]any)
	properties["build"] = map[string]any{"type": "string", "minLength": 1, "maxLength": 4096, "description": description}
	function := "Encoder, projector or decoder of the build to run on the images and sounds of inputs, without the core."
	if len(s.functions) > 0 {
		function += " The default build has " + strings.Join(s.functions, ", ") + "."
	}
	properties["function"] = map[string]any{"type": "string", "maxLength": 128, "description": function}
	properties["target"] = map[string]any{"type": "string", "maxLength": 128, "description": "Of a build of several."}
	data, err = json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return data
}

func (s *Server) answer(ctx context.Context, in inferInput) (*sdk.CallToolResult, error) {
	l, err := s.load(ctx, in)
	if err != nil {
		return nil, err
	}
	defer s.leave(l)
	if l.runner.Engine() == nil {
		return s.compute(ctx, l, in)
	}
	a, err := l.runner.Answer(ctx, in.Request, nil)
	l.workspace.Record(ctx, audit.Entry{Action: "run", Ref: in.Build, Digest: l.runner.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return nil, err
	}
	assembly := l.runner.Build().Assembly
	out := inferOutput{
		Build: assembly.Name + "@" + assembly.Version, Text: cut(a.Text, maxText), Cut: len(a.Text) > maxText, Reasoning: cut(a.Reasoning, maxText/4),
		Called: a.Called, Calls: a.Calls, Stop: string(a.Stop), Prompt: a.Timings.Prompt, Generated: a.Timings.Generated, PerSecond: a.Timings.PerSecond(),
	}
	made, err := media(a.Made, &out)
	if err != nil {
		return nil, err
	}
	result, err := structured(out)
	if err != nil {
		return nil, err
	}
	result.Content = append(result.Content, made...)
	return result, nil
}

// media encodes the images and sounds of an answer.
func media(made []runner.Made, out *inferOutput) ([]sdk.Content, error) {
	var list []sdk.Content
	all := 0
	for _, m := range made {
		if all += len(m.Data); all > maxMedia {
			return nil, fmt.Errorf("the images and sounds of the answer exceed %d bytes", maxMedia)
		}
		if m.Modality == abi.Audio {
			list, out.Made = append(list, &sdk.AudioContent{Data: m.Data, MIMEType: "audio/wav"}), append(out.Made, "audio/wav")
		} else {
			list, out.Made = append(list, &sdk.ImageContent{Data: m.Data, MIMEType: "image/png"}), append(out.Made, "image/png")
		}
	}
	return list, nil
}

// loaded is an open build.
type loaded struct {
	workspace *workspace.Workspace
	runner    *runner.Runner
	users     int  // number of calls that use it
	old       bool // replaced by another build; the last user frees it
}

func (l *loaded) release() error { return errors.Join(l.runner.Close(), l.workspace.Close()) }

// load finds and verifies a build for each call, and loads it unless it is the one used
// last.
func (s *Server) load(ctx context.Context, in inferInput) (*loaded, error) {
	w, b, err := s.find(ctx, in.Build, in.Target, in.Function)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loaded; l != nil && same(l.runner.Build(), b) {
		if err := w.Close(); err != nil {
			return nil, err
		}
		l.users++
		return l, nil
	}
	opt := s.opt.Runner
	opt.Skills = s.opt.Skills
	if s.opt.Called != nil {
		opt.Called = func(ctx context.Context, c runner.CallRecord) { s.opt.Called(ctx, w, c) }
	}
	r, err := runner.Open(ctx, b, opt)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if l := s.loaded; l != nil {
		if l.old = true; l.users == 0 {
			_ = l.release() // its callers have their answers
		}
	}
	s.loaded = &loaded{workspace: w, runner: r, users: 1}
	return s.loaded, nil
}

// leave ends the use of a build.
func (s *Server) leave(l *loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.old && l.users == 0 {
		_ = l.release() // no caller is left to report it to
	}
}

// find finds and verifies a build; the caller closes the workspace.
func (s *Server) find(ctx context.Context, name, target, function string) (*workspace.Workspace, *builds.Build, error) {
	arg, err := s.root.artifact(name)
	if err != nil {
		return nil, nil, err
	}
	w, err := s.open(arg)
	if err != nil {
		return nil, nil, err
	}
	b, err := w.Runnable(ctx, arg, workspace.RunOptions{Target: target, Function: function, Resolve: s.opt.Resolve, Exporters: s.opt.Exporters})
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, b, nil
}

// same reports whether two builds have the same bytes: a name maps to the bytes of a digest,
// which are the same file of the store.
func same(a, b *builds.Build) bool {
	type sealed interface{ Sealed() }
	_, one := a.Files.(sealed)
	_, two := b.Files.(sealed)
	if !one || !two || !reflect.DeepEqual(a.Assembly, b.Assembly) {
		return false
	}
	for _, p := range a.Assembly.Parts() {
		for _, names := range p.Files {
			for _, name := range names {
				here, err := a.Files.Path(name)
				there, other := b.Files.Path(name)
				if err != nil || other != nil || here != there {
					return false
				}
			}
		}
	}
	return true
}
