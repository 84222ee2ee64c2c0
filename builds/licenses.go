package builds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/modules"
)

// maxCombinations is the maximum number of combinations of alternative licenses that
// are judged.
const maxCombinations = 4096

// licensed is a module with one choice of its license.
type licensed struct {
	node    Node
	module  *modules.Manifest
	choices [][]string
}

// term is one limiting term of a license.
type term struct{ id, clause string }

func (t term) String() string { return t.id + " " + t.clause }

// licenses judges the licenses of all modules together. Of alternatives (OR), the
// combination with the fewest conflicts is judged. The modules with weights count as
// one work; skills and other programs run next to it.
func (c *checker) licenses() {
	parts := c.licensed()
	best, all := pick(parts, func(choice [][]string) int { return len(c.conflicts(parts, choice)) })
	if best == nil {
		return
	}
	if !all {
		c.list.Warn(diag.LicenseTerms, c.graph.Pos("/core"), fmt.Sprintf("only the first %d combinations of alternative licenses were judged", maxCombinations), "state the licenses that were chosen")
	}
	c.list = append(c.list, c.conflicts(parts, best)...)
	for i, p := range parts {
		c.duties(p, best[i])
	}
}

// Licenses judges the licenses of the modules of a graph together, as Check does.
func (g *Graph) Licenses(resolved Resolved) diag.List {
	c := &checker{graph: g, resolved: resolved}
	c.licenses()
	c.list.Sort()
	return c.list
}

// licensed returns the modules whose license can be read.
func (c *checker) licensed() []licensed {
	var parts []licensed
	seen := map[string]bool{}
	for _, n := range c.graph.Nodes() {
		m := c.resolved[n.Ref.Name]
		if m == nil || m.License == "" || seen[n.Ref.Name] {
			continue
		}
		seen[n.Ref.Name] = true
		e, err := spdx.Parse(m.License)
		if err != nil {
			continue // the manifest's own diagnostic
		}
		p := licensed{n, m, e.Choices()}
		if p.choices == nil {
			c.list.Warn(diag.LicenseTerms, c.graph.Pos(n.Ptr+"/ref"), fmt.Sprintf("%s: %s has too many alternatives to be judged", m.ID(), m.License), "state the license that was chosen")
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// pick returns the combination of choices with the lowest cost, the first of equals. It
// returns false if a later one than the first maxCombinations could cost less.
func pick(parts []licensed, cost func([][]string) int) ([][]string, bool) {
	at := make([]int, len(parts))
	var best [][]string
	least := 0
	for range maxCombinations {
		choice := make([][]string, len(parts))
		for i, p := range parts {
			choice[i] = p.choices[at[i]]
		}
		if n := cost(choice); best == nil || n < least {
			best, least = choice, n
		}
		i := 0
		for ; i < len(parts); i++ {
			if at[i]++; at[i] < len(parts[i].choices) {
				break
			}
			at[i] = 0
		}
		if i == len(parts) || least == 0 {
			return best, true
		}
	}
	return best, false
}

// conflicts returns the reasons why modules may not be shipped together, as one
// choice of their licenses has it.
func (c *checker) conflicts(parts []licensed, choice [][]string) diag.List {
	var list diag.List
	for i, p := range parts {
		pos := c.graph.Pos(p.node.Ptr + "/ref")
		for j, q := range parts {
			if i != j && weights(p.module) && weights(q.module) {
				for _, why := range incompatible(choice[i], choice[j]) {
					list.Add(diag.LicensePair, pos, fmt.Sprintf("%s (%s) and %s (%s)", p.module.ID(), why[0], q.module.ID(), why[1]), "replace one of them, or ship two builds")
				}
			}
		}
		for _, no := range termsOf(choice[i], spdx.NoDerivatives) {
			if what, changed := c.changes(p); changed {
				list.Add(diag.LicensePair, pos, fmt.Sprintf("%s (%s) is changed by %s", p.module.ID(), no, what), "ship the weights as they are")
			}
		}
		if lost := c.unstated(choice[i]); lost != nil {
			list.Add(diag.LicensePair, c.graph.Pos("/license"), fmt.Sprintf("the graph states %s, which does not contain the terms of %s (%s)", c.graph.License, p.module.ID(), lost), "add AND "+lost.id+", or remove license: it is then that of all modules")
		}
	}
	return list
}

// weights reports whether a module is a part of the work that a build is, instead
// of a program next to it.
func weights(m *modules.Manifest) bool {
	return m.Type != abi.Skill && m.Type != abi.Router && m.Type != abi.Sandbox
}

// limiting are the kinds that bind those who pass a build on.
var limiting = []spdx.Kind{spdx.Copyleft, spdx.ShareAlike, spdx.NonCommercial, spdx.NoDerivatives, spdx.Restricted}

// termsOf returns the terms of one kind in a set of licenses.
func termsOf(ids []string, kind spdx.Kind) []term {
	var out []term
	for _, id := range ids {
		if t, _ := spdx.TermsOf(id); t[kind] != "" {
			out = append(out, term{id, t[kind]})
		}
	}
	return out
}

// incompatible returns the pairs of clauses that two modules cannot both keep: a
// copyleft license forbids every further restriction, and another license adds one or
// is another copyleft license.
func incompatible(a, b []string) [][2]term {
	var out [][2]term
	for _, free := range termsOf(a, spdx.Copyleft) {
		for _, kind := range []spdx.Kind{spdx.Restricted, spdx.NonCommercial, spdx.NoDerivatives, spdx.Additional} {
			for _, limit := range termsOf(b, kind) {
				out = append(out, [2]term{free, limit})
			}
		}
		if version2(free.id) {
			for _, id := range b {
				switch {
				case strings.HasPrefix(id, "GPL-3.0"), strings.HasPrefix(id, "AGPL-3.0"):
					out = append(out, [2]term{free, {id, "§10"}})
				case id == "Apache-2.0":
					out = append(out, [2]term{free, {id, "§3"}})
				case strings.HasPrefix(id, "LGPL-3.0"):
					out = append(out, [2]term{free, {id, "§2"}})
				}
			}
		}
	}
	return out
}

// version2 reports whether a license is GPL 2.0 without the choice of a later version.
func version2(id string) bool { return id == "GPL-2.0-only" || id == "GPL-2.0" }

// changes returns what changes the weights of a module in this build.
func (c *checker) changes(p licensed) (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(c.graph.Exports)) {
		for _, e := range c.graph.Exports[name].Exports {
			if e.Precision != "" && e.Takes(p.module.Name, p.module.Type) {
				return fmt.Sprintf("the export %s (%s %s)", name, e.Format, e.Precision), true
			}
		}
	}
	if p.module.Type == abi.Core && len(c.graph.Core.Adapters) > 0 {
		return "adapter " + c.graph.Core.Adapters[0].Ref.String(), true
	}
	return "", false
}

// unstated returns a limiting term that the graph's own license does not contain.
func (c *checker) unstated(ids []string) *term {
	if c.graph.License == "" {
		return nil
	}
	e, err := spdx.Parse(c.graph.License)
	if err != nil {
		return nil
	}
	for _, kind := range limiting {
		for _, t := range termsOf(ids, kind) {
			if !slices.Contains(e.IDs, strings.TrimSuffix(t.id, "+")) {
				return &t
			}
		}
	}
	return nil
}

// duties warns of the conditions of a module's license and of unknown terms.
func (c *checker) duties(p licensed, ids []string) {
	pos := c.graph.Pos(p.node.Ptr + "/ref")
	for _, id := range ids {
		t, ok := spdx.TermsOf(id)
		if !ok {
			c.list.Warn(diag.LicenseTerms, pos, fmt.Sprintf("%s: the terms of %s are unknown to mm", p.module.ID(), id), "read them before the build is passed on")
		}
		if clause := t[spdx.NonCommercial]; clause != "" {
			c.list.Warn(diag.LicenseTerms, pos, fmt.Sprintf("%s: %s %s permits no commercial use of the build", p.module.ID(), id, clause), "")
		}
		if clause := t[spdx.Restricted]; clause != "" {
			c.list.Warn(diag.LicenseTerms, pos, fmt.Sprintf("%s: %s %s forbids uses of the build", p.module.ID(), id, clause), "pass its terms on with the build")
		}
		if clause := t[spdx.Copyleft]; clause != "" {
			c.list.Warn(diag.LicenseTerms, pos, fmt.Sprintf("%s: %s %s demands the source and allows no further restrictions", p.module.ID(), id, clause), "")
		}
	}
}
