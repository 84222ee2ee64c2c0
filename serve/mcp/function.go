package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/workspace"
)

// listed lists the functions of a build, each with its type and modality.
func listed(a *builds.Assembly) []string {
	var out []string
	for _, p := range a.Functions() {
		name := p.Name + " (" + string(p.Type)
		if p.Modality != "" {
			name += " of " + string(p.Modality)
		}
		out = append(out, name+")")
	}
	return out
}

// functionOutput is the result of infer for functions.
type functionOutput struct {
	Build string         `json:"build"` // NAME@VERSION
	Parts []*part.Report `json:"parts"`
}

// compute runs the functions of a build without a core on the images and sounds of the
// request.
func (s *Server) compute(ctx context.Context, l *loaded, in inferInput) (*sdk.CallToolResult, error) {
	var args []part.Argument
	for _, p := range in.Inputs {
		if p.Type == abi.Text || p.Type == "" {
			return nil, errors.New("functions take no text: want an image or a sound")
		}
		args = append(args, part.Argument{Modality: p.Type, Input: modality.Input{File: p.Path, Data: p.Data}})
	}
	results, err := l.runner.Compute(ctx, args)
	l.workspace.Record(ctx, audit.Entry{Action: "run", Ref: in.Build, Digest: l.runner.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return nil, err
	}
	assembly := l.runner.Build().Assembly
	out := functionOutput{Build: assembly.Name + "@" + assembly.Version}
	for _, c := range results {
		report, err := c.Report(l.runner.Build().Manifests[c.Part.Name])
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, report)
	}
	return structured(out)
}
