package skills

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// granted returns the permissions of a program: those that it asks for, that a
// grant contains, and of paths those that lie below the root folder, if there is
// one. Without a grant the list is empty.
func (o Options) granted(name, program string, asks modules.Allow) modules.Allow {
	var granted modules.Allow
	for _, g := range o.Grants {
		if g.Skill == name && (g.Program == "" || g.Program == program) {
			granted = granted.Join(g.Allow)
		}
	}
	out := asks.Within(granted)
	out.Read = slices.DeleteFunc(out.Read, func(path string) bool {
		return !resolvesBelow(path, granted.Read...) || o.Root != "" && !resolvesBelow(path, o.Root)
	})
	return out
}

// Granted returns the permissions of a skill that is not part of a build.
func (o Options) Granted(m *modules.Manifest, code []byte) modules.Allow {
	if m.Runtime == nil || m.Runtime.Allow == nil {
		return modules.Allow{}
	}
	return o.granted(m.Name, program(m.Runtime, code), *m.Runtime.Allow)
}

// resolvesBelow reports whether a path is below a folder when all links are
// followed: a link in a granted folder must not lead out of it.
func resolvesBelow(path string, dirs ...string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir, err := filepath.EvalSymlinks(dir)
		return err == nil && modules.Below(real, dir)
	})
}

// Inner returns the options for the skills of an agent: the grants for
// AGENT/NAME, and those for a program, which hold wherever it is used.
func (o Options) Inner(agent string) Options {
	var grants []modules.Grant
	for _, g := range o.Grants {
		if rest, ok := strings.CutPrefix(g.Skill, agent+"/"); ok {
			g.Skill = rest
		} else if g.Program == "" {
			continue
		}
		grants = append(grants, g)
	}
	o.Grants = grants
	return o
}

// Pinned returns the options for other builds than the one of this set: a grant
// for a name holds only for the program that has the name in this set.
func (o Options) Pinned(s *Set) Options {
	var grants []modules.Grant
	for _, g := range o.Grants {
		if k := s.skills[g.Skill]; g.Program == "" && k != nil {
			g.Program = k.info.Program
		}
		if g.Program != "" {
			grants = append(grants, g)
		}
	}
	o.Grants = grants
	return o
}

// CheckName refuses a name that no skill of the build has.
func CheckName(a *builds.Assembly, name string) error {
	var have []string
	for _, s := range a.Skills {
		have = append(have, s.Name)
	}
	if slices.Contains(have, name) {
		return nil
	}
	hint := "the build has no skills"
	if len(have) > 0 {
		hint = "the build has " + strings.Join(have, ", ")
	}
	return diag.Hinted(fmt.Errorf("unknown skill %q", name), diag.Suggest(name, have, hint))
}

// CheckGrants refuses grants by name that no skill of the build asks for: a
// mistyped name or permission would otherwise go unnoticed.
func CheckGrants(a *builds.Assembly, grants []modules.Grant) error {
	var names []string
	asks := map[string]modules.Allow{}
	for _, s := range a.Skills {
		names = append(names, s.Name)
		asks[s.Name] = s.Asks()
	}
	for _, g := range grants {
		if outer, _, inner := strings.Cut(g.Skill, "/"); inner && slices.Contains(names, outer) {
			continue // the skills of an agent are not known before it is opened
		}
		want, ok := asks[g.Skill]
		if !ok {
			return fmt.Errorf("grant for %s: the build has no such skill; it has %s", g.Skill, strings.Join(names, ", "))
		}
		if g.Allow.Within(want).Empty() {
			return fmt.Errorf("grant for %s: %s is not what it asks for; it asks for %s", g.Skill, g.Allow, want)
		}
	}
	return nil
}

// denied describes the permissions that the skill requests and does not have, with the flag that
// grants it; empty if it gets all.
func (k Info) denied() string {
	rest := k.Asks.Without(k.Allow)
	if rest.Empty() {
		return ""
	}
	return fmt.Sprintf("skill %s asks for %s, which is not granted (%s)", k.Name, rest, rest.Flag(k.Name))
}
