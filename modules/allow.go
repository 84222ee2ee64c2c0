package modules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
)

// Allow lists the permissions of a skill. In a manifest it is a request: a skill
// gets the part of it that the user grants (see [Grant]) and that the sandbox of
// the build does not exclude.
type Allow struct {
	Network []string `json:"network,omitempty"` // hosts
	Read    []string `json:"read,omitempty"`    // absolute paths
	Env     []string `json:"env,omitempty"`     // names of variables
	Clock   bool     `json:"clock,omitempty"`   // the current time and durations
	Random  bool     `json:"random,omitempty"`
}

// Empty reports whether nothing is allowed.
func (a Allow) Empty() bool { return len(a.List()) == 0 }

// List returns the permissions as --allow spells them, sorted: clock, env:NAME,
// network:HOST, random, read:PATH.
func (a Allow) List() []string {
	var list []string
	for kind, names := range map[string][]string{"network": a.Network, "read": a.Read, "env": a.Env} {
		for _, name := range names {
			list = append(list, kind+":"+name)
		}
	}
	if a.Clock {
		list = append(list, "clock")
	}
	if a.Random {
		list = append(list, "random")
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// String lists the permissions; "none" without any.
func (a Allow) String() string { return cmp.Or(strings.Join(a.List(), " "), "none") }

// Flag returns the flag that grants the permissions to a skill.
func (a Allow) Flag(skill string) string {
	return "--allow " + skill + "=" + strings.Join(a.List(), ",")
}

// NotePermissions adds a note at pos if the skill asks for permissions.
func (m *Manifest) NotePermissions(list *diag.List, pos diag.Pos) {
	if m.Runtime == nil || m.Runtime.Allow == nil || m.Runtime.Allow.Empty() {
		return
	}
	list.Note(diag.PermissionAsk, pos, fmt.Sprintf("%s asks for %s", m.ID(), m.Runtime.Allow), "grant it with "+m.Runtime.Allow.Flag(m.Name))
}

// Join returns the permissions of either.
func (a Allow) Join(b Allow) Allow {
	return Allow{
		Network: slices.Concat(a.Network, b.Network), Read: slices.Concat(a.Read, b.Read), Env: slices.Concat(a.Env, b.Env),
		Clock: a.Clock || b.Clock, Random: a.Random || b.Random,
	}
}

// Within returns the permissions that both allow. Of two paths where one
// contains the other, that is the inner one. Links are not resolved.
func (a Allow) Within(most Allow) Allow {
	both := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
	}
	out := Allow{Network: both(a.Network, most.Network), Env: both(a.Env, most.Env), Clock: a.Clock && most.Clock, Random: a.Random && most.Random}
	for _, p := range a.Read {
		for _, q := range most.Read {
			if Below(p, q) {
				out.Read = append(out.Read, p)
			} else if Below(q, p) {
				out.Read = append(out.Read, q)
			}
		}
	}
	slices.Sort(out.Read)
	out.Read = slices.Compact(out.Read)
	return out
}

// Without returns the permissions of a that b does not contain.
func (a Allow) Without(b Allow) Allow {
	rest := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return Allow{
		Network: rest(a.Network, b.Network), Env: rest(a.Env, b.Env), Clock: a.Clock && !b.Clock, Random: a.Random && !b.Random,
		Read: slices.DeleteFunc(slices.Clone(a.Read), func(p string) bool {
			return slices.ContainsFunc(b.Read, func(q string) bool { return Below(p, q) })
		}),
	}
}

// Below reports whether a path is dir or a path below it, by its name.
func Below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Grant holds the permissions that the user grants a skill, in trust.yaml or on the command line.
type Grant struct {
	Skill string `json:"skill"` // name; AGENT/NAME for a skill of an agent
	// Program is the digest of the program ([ProgramDigest]); empty: any program of a skill of this name.
	Program string `json:"program"`
	Allow   Allow  `json:"allow"`
}

var (
	grantEnv  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })
	grantHost = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,252})$`) })
)

// ParseGrant parses SKILL=PERMISSION, where the permission is read:PATH,
// env:NAME, network:HOST, clock or random, or several of them separated by
// commas. Relative paths are relative to the working folder.
func ParseGrant(text string) (Grant, error) {
	skill, rest, ok := strings.Cut(text, "=")
	if !ok || skill == "" || rest == "" {
		return Grant{}, fmt.Errorf("grant %q: want SKILL=read:DIR, env:NAME, network:HOST, clock or random", text)
	}
	g := Grant{Skill: skill}
	for part := range strings.SplitSeq(rest, ",") {
		kind, value, _ := strings.Cut(part, ":")
		switch {
		case part == "clock":
			g.Allow.Clock = true
		case part == "random":
			g.Allow.Random = true
		case kind == "env" && grantEnv().MatchString(value):
			g.Allow.Env = append(g.Allow.Env, value)
		case kind == "network" && grantHost().MatchString(value):
			g.Allow.Network = append(g.Allow.Network, value)
		case kind == "read" && value != "":
			abs, err := filepath.Abs(value)
			if err != nil {
				return g, fmt.Errorf("grant %q: %w", text, err)
			}
			g.Allow.Read = append(g.Allow.Read, abs)
		default:
			return g, fmt.Errorf("grant %q: unknown permission %q: want read:DIR, env:NAME, network:HOST, clock or random", text, part)
		}
	}
	return g, nil
}

// ProgramDigest identifies the program of a skill, from the digest of its file:
// sha256:HEX of the file, with arguments of both. It is empty for programs
// without a file and without a digest, which have no permissions.
func (r *Runtime) ProgramDigest(file string) string {
	switch {
	case r.Container != "":
		if _, digest, ok := strings.Cut(r.Container, "@"); ok {
			return digest
		}
		return ""
	case r.MCP != nil && file != "":
		sum := sha256.Sum256([]byte(strings.Join(append([]string{file, r.MCP.Tool}, r.MCP.Args...), "\x00")))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return file
}
