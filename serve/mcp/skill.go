package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/workspace"
)

// assetsKey is the argument of a skill's tool that maps assets to files. A skill with an input
// of this name gets no assets.
const assetsKey = "assets"

// addSkills adds a tool for each skill of the build.
func (s *Server) addSkills(ctx context.Context) error {
	w, b, err := s.find(ctx, s.opt.Build, s.opt.Target, "")
	if err != nil {
		return fmt.Errorf("opening %s: %w", s.opt.Build, err)
	}
	s.closes = append(s.closes, w.Close)
	s.functions = listed(b.Assembly)
	if err := skills.CheckGrants(b.Assembly, byName(s.opt.Skills.Grants)); err != nil {
		return err
	}
	set, err := skills.Open(ctx, b, s.opt.Skills)
	if err != nil {
		return fmt.Errorf("opening the skills of %s: %w", s.opt.Build, err)
	}
	s.closes = append(s.closes, set.Close)
	// From here on clients can name other builds and change the files of this
	// one: a grant for a name holds for the programs that were opened now.
	s.opt.Skills = s.opt.Skills.Pinned(set)
	own := []string{"validate", "assemble", "infer"}
	for _, info := range set.List() {
		if slices.Contains(own, info.Name) {
			return fmt.Errorf("%s: skill %s has the name of a tool of mm", s.opt.Build, info.Name)
		}
		k := &skill{server: s, workspace: w, set: set, info: info}
		t, err := k.tool()
		if err != nil {
			return err
		}
		if err := s.add(t); err != nil {
			return err
		}
	}
	return nil
}

// byName returns the grants for any program of a name.
func byName(list []modules.Grant) []modules.Grant {
	return slices.DeleteFunc(slices.Clone(list), func(g modules.Grant) bool { return g.Program != "" })
}

// skill is a tool for a skill of the build.
type skill struct {
	server    *Server
	workspace *workspace.Workspace // of the build
	set       *skills.Set
	info      skills.Info
}

func (k *skill) tool() (tool, error) {
	input, output := k.info.Inputs, k.info.Outputs
	description := k.info.Description
	if !k.info.Asks.Empty() {
		description = strings.TrimSpace(fmt.Sprintf("%s It asks for %s; granted: %s.", description, k.info.Asks, k.info.Allow))
	}
	if k.info.Err != nil {
		description += fmt.Sprintf(" It cannot be called here: %v.", k.info.Err)
	}
	if input == nil { // no manifest
		input, output = []byte(`{"type":"object"}`), nil
	}
	var err error
	if input, err = withAssets(input); err != nil {
		return tool{}, fmt.Errorf("serving %s: %w", k.info.Name, err)
	}
	return tool{
		name: k.info.Name, title: k.info.Name + " " + k.info.Version, description: cut(description, maxDetail),
		input: input, output: output, call: k.call,
	}, nil
}

// withAssets adds the assets argument to the schema of a skill that takes assets.
func withAssets(input []byte) ([]byte, error) {
	var doc struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties,omitempty"`
		Required   []string                   `json:"required,omitempty"`
		Additional *bool                      `json:"additionalProperties,omitempty"`
	}
	if err := json.Unmarshal(input, &doc); err != nil {
		return nil, err
	}
	takes := false
	for _, p := range doc.Properties {
		var port struct {
			Pattern string
			Items   struct{ Pattern string }
		}
		if err := json.Unmarshal(p, &port); err == nil && port.Pattern+port.Items.Pattern != "" {
			takes = true // a uri: other port types have no pattern
		}
	}
	if _, taken := doc.Properties[assetsKey]; taken || !takes {
		return input, nil
	}
	doc.Properties[assetsKey] = json.RawMessage(`{"type":"object","maxProperties":16,"propertyNames":{"pattern":"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"},` +
		`"additionalProperties":{"type":"string","minLength":1,"maxLength":4096},` +
		`"description":"The files that #NAME means: NAME and a path below the root folder."}`)
	return json.Marshal(doc)
}

// call calls the skill as a model does.
func (k *skill) call(ctx context.Context, args []byte) (*sdk.CallToolResult, error) {
	v, err := object(args)
	if err != nil {
		return nil, err
	}
	var assets []sandbox.Asset
	if named, ok := v[assetsKey].(map[string]any); ok {
		delete(v, assetsKey)
		var done func()
		if assets, done, err = k.open(named); err != nil {
			return nil, err
		}
		defer done()
	}
	start := time.Now()
	answer, err := k.set.Call(ctx, abi.ToolCall{Tool: k.info.Name, Args: v}, assets)
	if err != nil {
		return nil, err
	}
	if report := k.server.opt.Called; report != nil {
		report(ctx, k.workspace, runner.CallRecord{
			Call: talk.Call{Name: k.info.Name, Arguments: args}, Skill: k.info, Answer: answer, Line: answer.Line, Took: time.Since(start),
		})
	}
	if answer.Fault != nil {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: answer.Line}}}, nil
	}
	values, err := object([]byte(answer.Line))
	if err != nil {
		return nil, err
	}
	delete(values, "ok") // the rest are the skill's outputs
	return structured(values)
}

// object parses a JSON object and keeps numbers as written.
func object(data []byte) (map[string]any, error) {
	v, err := schemas.ReadValue(data)
	values, ok := v.(map[string]any)
	if err == nil && !ok {
		err = fmt.Errorf("not a JSON object")
	}
	return values, err
}

// open opens the files of assets.
func (k *skill) open(named map[string]any) (list []sandbox.Asset, done func(), err error) {
	var files []io.Closer
	release := func() {
		for _, f := range files {
			f.Close()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		path, _ := named[name].(string) // the schema requires a string
		f, size, err := k.server.root.open(path)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
		list = append(list, sandbox.Asset{Name: name, Data: f, Size: size})
	}
	return list, release, nil
}
