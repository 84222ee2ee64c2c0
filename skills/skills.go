// Package skills calls the tools of a build for a model.
//
// [Open] prepares the skills that a build names. The manifest of each names
// its engine (builtin, wasm, starlark, python, process, container, mcp,
// agent), its limits and the permissions that it asks for; the build's sandbox
// can only restrict them, and only the user grants permissions. [Set.Call] takes a call as the model wrote it and returns the
// line of JSON that is fed back: {"ok":true, …} with the outputs of the skill
// by name, or {"ok":false,"error":{"kind":…,"message":…}}. Every failure of
// the model, the arguments or the guest is such a line; an error concerns the
// caller.
//
// Arguments are checked against the skill's inputs before it runs, and the
// result against its outputs before it is used. An argument of type uri is
// "#NAME" and names an asset of the request; the guest may read only the
// assets that the arguments name.
package skills

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills/sandbox"
)

// Options configures a set.
type Options struct {
	// Executors by the key of a manifest's runtime: builtin, wasm, starlark,
	// python, process, container, mcp, agent.
	Executors map[string]sandbox.Executor
	// Grants are the permissions that the user grants. A permission that a skill requests
	// without a grant it does not get.
	Grants []modules.Grant
	// Root is a folder that contains every path that may be read; empty: any.
	Root string
	// Warn receives a line for each skill that requests more than its grants; may be nil.
	Warn func(string)
}

// Set holds the skills of a build. It may be used from several goroutines.
type Set struct {
	skills map[string]*skill
}

// skill is a skill of a set, or the reason why it cannot be called.
type skill struct {
	info    Info
	guest   sandbox.Guest
	in, out *schemas.Shape
	uris    map[string]bool // inputs of type uri or list[uri]
}

// Info describes a skill.
type Info struct {
	Name, Version, Digest string
	Description           string
	Engine                string            // key of the manifest's runtime
	By                    string            // engine that replaces it here; "": none
	Limits                modules.Effective // effective limits
	Program               string            // digest of the program, see [modules.Runtime.ProgramDigest]
	Asks                  modules.Allow     // requested permissions
	Allow                 modules.Allow     // effective permissions
	Inputs, Outputs       []byte            // JSON Schemas of an object
	Reads                 bool              // every call needs an asset
	Err                   error             // why it cannot be called, or nil
}

// Open prepares the skills of a build. A skill that cannot be called here is
// in the set with its reason, and calls of it are refused. Open returns an
// error only if the context ends or reading fails.
func Open(ctx context.Context, b *builds.Build, opt Options) (*Set, error) {
	s := &Set{skills: map[string]*skill{}}
	for _, part := range b.Assembly.Skills {
		k := &skill{info: Info{Name: part.Name, Version: part.Version, Digest: part.Digest}}
		s.skills[part.Name] = k
		err := k.open(ctx, b, part, opt)
		if text := k.info.denied(); text != "" && opt.Warn != nil {
			opt.Warn(text)
		}
		var fault *sandbox.Fault
		switch {
		case err == nil:
		case errors.As(err, &fault):
			k.info.Err = err
		default:
			return nil, errors.Join(fmt.Errorf("opening skill %s: %w", part.ID(), err), s.Close())
		}
	}
	return s, nil
}

// Close releases the guests; no call may be in progress.
func (s *Set) Close() error {
	var all error
	for _, name := range slices.Sorted(maps.Keys(s.skills)) {
		if g := s.skills[name].guest; g != nil {
			all = errors.Join(all, g.Close())
		}
	}
	return all
}

// List describes the skills, sorted by name.
func (s *Set) List() []Info {
	var list []Info
	for _, name := range slices.Sorted(maps.Keys(s.skills)) {
		list = append(list, s.skills[name].info)
	}
	return list
}

// open prepares one skill.
func (k *skill) open(ctx context.Context, b *builds.Build, part builds.SkillPart, opt Options) error {
	m := b.Manifests[part.Name]
	if m == nil || m.Runtime == nil {
		return sandbox.Refuse("build has no %s of %s", modules.FileName, part.ID())
	}
	k.info.Description = m.Description
	engine, value := m.Runtime.Engine()
	k.info.Engine = engine
	k.info.Limits = part.Limits.Filled()
	k.info.Asks = part.Asks()
	asks := k.info.Asks
	if box := b.Assembly.Sandbox; box != nil {
		if box.Engines != nil && !slices.Contains(box.Engines, engine) {
			return sandbox.Refuse("%s runs on %s; %s allows %v", part.ID(), engine, box.ID(), box.Engines)
		}
		if box.Allow != nil {
			asks = asks.Within(*box.Allow)
		}
	}
	if err := k.contract(m); err != nil {
		return err
	}
	e := opt.Executors[engine]
	if e == nil {
		return sandbox.Refuse("engine %s is not available", engine)
	}
	p := sandbox.Program{Name: part.Name, Limits: k.info.Limits, Root: opt.Root}
	var err error
	switch {
	case engine == "builtin":
		p.Name = value
	case abi.Format(engine).Code():
		if p.Code, err = code(b.Files, part, abi.Format(engine)); err != nil {
			return err
		}
	default:
		p.Ref = value
	}
	if p.MCP = m.Runtime.MCP; p.MCP != nil {
		p.Args = p.MCP.Args
	}
	k.info.Program = program(m.Runtime, p.Code)
	k.info.Allow = opt.granted(part.Name, k.info.Program, asks)
	p.Allow = k.info.Allow
	if k.guest, err = e.Prepare(ctx, p); err != nil {
		return err
	}
	if s, ok := k.guest.(substitute); ok {
		k.info.By = s.By()
		if box := b.Assembly.Sandbox; box != nil && box.Engines != nil && !slices.Contains(box.Engines, k.info.By) {
			return sandbox.Refuse("engine %s, which replaces %s, is not allowed by %s", k.info.By, engine, box.ID())
		}
	}
	return nil
}

// substitute is implemented by guests that another engine runs than the
// manifest names.
type substitute interface{ By() string }

// code reads the program of a skill.
func code(files builds.Files, part builds.SkillPart, format abi.Format) ([]byte, error) {
	names := part.Files[string(format)]
	if len(names) != 1 {
		return nil, sandbox.Refuse("%s: got %d files of %s, want 1", part.ID(), len(names), format)
	}
	f, err := files.Open(names[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, sandbox.MaxCode+1))
	if err != nil {
		return nil, err
	}
	if len(b) > sandbox.MaxCode {
		return nil, sandbox.Refuse("program of %s exceeds %d bytes", part.ID(), sandbox.MaxCode)
	}
	return b, nil
}

// program returns the digest of a program.
func program(r *modules.Runtime, code []byte) string {
	if code == nil {
		return r.ProgramDigest("")
	}
	sum := sha256.Sum256(code)
	return r.ProgramDigest("sha256:" + hex.EncodeToString(sum[:]))
}

// contract derives the schemas of a skill from its ports.
func (k *skill) contract(m *modules.Manifest) error {
	k.uris = map[string]bool{}
	for _, p := range m.Inputs {
		if p.Type == "uri" || p.Type == "list[uri]" {
			k.uris[p.Name] = true
			k.info.Reads = k.info.Reads || p.Type == "uri" && !p.Optional
		}
	}
	for _, p := range m.Outputs {
		if p.Name == "ok" || p.Name == "error" {
			return sandbox.Refuse("%s: output name %q is reserved", m.ID(), p.Name)
		}
	}
	k.info.Inputs, k.info.Outputs = Schema(m.Inputs), Schema(m.Outputs)
	var inErr, outErr error
	k.in, inErr = schemas.NewShape(k.info.Inputs)
	k.out, outErr = schemas.NewShape(k.info.Outputs)
	return cmp.Or(inErr, outErr)
}
