package resolve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// digested is a module of which only the digest is known.
type digested string

func (d digested) digest(context.Context) (string, error)              { return string(d), nil }
func (d digested) manifest(context.Context) (*modules.Manifest, error) { panic("not asked for") }
func (d digested) fetch(context.Context) (*Module, error)              { panic("not asked for") }

func fakeDigest(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }

// world is a set of modules: name → version → requirements.
type world map[string]map[string][]string

func (w world) solver(t *testing.T) *solver {
	return &solver{
		ctx: context.Background(),
		candidates: func(_ context.Context, name string, _ []want) ([]Candidate, error) {
			var all []Candidate
			for v := range w[name] {
				from := ""
				if name == "core" && v == "3.0.0" {
					from = "r.example/x/core"
				}
				all = append(all, Candidate{Repository: from, Name: name, Version: semver.MustParse(v), module: digested(fakeDigest(name + v))})
			}
			slices.SortFunc(all, func(a, b Candidate) int { return b.Version.Compare(a.Version) })
			return all, nil
		},
		requires: func(_ context.Context, c Candidate) ([]abi.Ref, error) {
			return refs(t, w[c.Name][c.Version.String()]), nil
		},
	}
}

func refs(t *testing.T, list []string) []abi.Ref {
	t.Helper()
	var out []abi.Ref
	for _, s := range list {
		r, err := abi.ParseRef(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func (w world) solve(t *testing.T, graph ...string) (map[string]Candidate, *solver) {
	t.Helper()
	s := w.solver(t)
	wants := map[string][]want{}
	for _, r := range refs(t, graph) {
		wants[r.Name] = append(wants[r.Name], want{r, "graph"})
	}
	got, err := s.solve(wants, map[string]Candidate{})
	if err != nil {
		t.Fatal(err)
	}
	return got, s
}

func versions(chosen map[string]Candidate) string {
	var parts []string
	for _, name := range sorted(chosen) {
		parts = append(parts, name+"@"+chosen[name].Version.String())
	}
	return strings.Join(parts, " ")
}

func TestSolve(t *testing.T) {
	w := world{
		"core": {"3.1.0": nil, "3.0.0": nil, "4.0.0-rc.1": nil},
		"enc":  {"1.3.0": nil, "1.4.2": nil, "1.5.0": {"core@^4"}, "2.0.0": nil},
		"proj": {"1.2.0": {"enc@>=1.4 <2"}, "1.1.0": {"enc@1.3"}},
	}
	for _, tc := range []struct{ name, graph, want, chain string }{
		{"highest", "core@^3", "core@3.1.0", ""},
		{"exact", "core@3.0.0", "core@3.0.0", ""},
		{"pre-release only by name", "core", "core@3.1.0", ""},
		{"requirement narrows", "enc@^1.3,proj@1.2.0,core@3", "core@3.1.0 enc@1.4.2 proj@1.2.0", ""},
		{"goes back", "enc@1.3.0,proj@^1", "enc@1.3.0 proj@1.1.0", ""},
		{"pulls in what is required", "proj@1.2.0", "enc@1.4.2 proj@1.2.0", ""},
		{"by digest", "core@" + fakeDigest("core3.0.0"), "core@3.0.0", ""},
		{"a pre-release by digest", "core@" + fakeDigest("core4.0.0-rc.1"), "core@4.0.0-rc.1", ""},
		{"digest and version differ", "core@3.1.0,core@" + fakeDigest("core3.0.0"), "", "graph asks for core@3.1.0, graph asks for core@sha256:"},
		{"two digests", "core@" + fakeDigest("core3.1.0") + ",core@" + fakeDigest("core3.0.0"), "", "graph asks for core@sha256:"},
		{"no such digest", "core@" + fakeDigest("else"), "", "there is 4.0.0-rc.1, 3.1.0, 3.0.0"},
		{"by tag", "core:3.0.0", "core@3.0.0", ""},
		{"source", "r.example/x/core@^3", "core@3.0.0", ""},
		{"wrong source", "r.example/y/core@^3", "", "there is 4.0.0-rc.1, 3.1.0, 3.0.0"},
		{"conflict", "enc@1.3,proj@1.2.0", "", "graph asks for enc@1.3, proj@1.2.0 asks for enc@>=1.4 <2"},
		{"no version", "enc@^7", "", "graph asks for enc@^7; there is 2.0.0, 1.5.0, 1.4.2, 1.3.0"},
		{"unknown", "nobody@1", "", "graph asks for nobody@1; no version of it is at hand"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, s := w.solve(t, strings.Split(tc.graph, ",")...)
			if versions(got) != tc.want {
				t.Errorf("chose %q, want %q", versions(got), tc.want)
			}
			if tc.chain != "" && (s.worst == nil || !strings.Contains(s.worst.chain(), tc.chain)) {
				t.Errorf("explained as %q, want %q", s.worst.chain(), tc.chain)
			}
		})
	}
}

// On 1,000 random worlds the solver finds a solution exactly when one exists,
// and it satisfies all requirements.
func TestSolveAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	solvable := 0
	for i := range 1000 {
		w, graph := randomWorld(rng)
		got, _ := w.solve(t, graph...)
		want := w.bruteForce(t, graph)
		if (got != nil) != want {
			t.Fatalf("world %d: solver %v, brute force %v\n%v\n%v", i, versions(got), want, w, graph)
		}
		if got == nil {
			continue
		}
		solvable++
		if why := w.wrong(t, graph, got); why != "" {
			t.Fatalf("world %d: %s is wrong: %s", i, versions(got), why)
		}
		again, _ := w.solve(t, graph...)
		if versions(again) != versions(got) {
			t.Fatalf("world %d: %s, then %s", i, versions(got), versions(again))
		}
	}
	if solvable < 100 || solvable > 900 {
		t.Errorf("%d of 1,000 worlds were solvable: the test is one-sided", solvable)
	}
	t.Logf("%d of 1,000 solvable, all the same as by brute force", solvable)
}

func randomWorld(rng *rand.Rand) (world, []string) {
	names := []string{"a", "b", "c", "d"}
	pick := func() string {
		forms := []string{"^%d.%d", "%d.%d", ">=%d.%d", "~%d.%d.0"}
		return names[rng.IntN(len(names))] + "@" + fmt.Sprintf(forms[rng.IntN(len(forms))], 1+rng.IntN(2), rng.IntN(2))
	}
	w := world{}
	for _, n := range names {
		w[n] = map[string][]string{}
		for range 1 + rng.IntN(3) {
			var needs []string
			if rng.IntN(2) == 0 {
				needs = append(needs, pick())
			}
			w[n][fmt.Sprintf("%d.%d.%d", 1+rng.IntN(2), rng.IntN(2), rng.IntN(2))] = needs
		}
	}
	return w, []string{pick(), pick()}
}

// bruteForce tries every choice of at most one version a name.
func (w world) bruteForce(t *testing.T, graph []string) bool {
	names := sorted(w)
	var try func(i int, chosen map[string]Candidate) bool
	try = func(i int, chosen map[string]Candidate) bool {
		if i == len(names) {
			return w.wrong(t, graph, chosen) == ""
		}
		if try(i+1, chosen) {
			return true
		}
		for v := range w[names[i]] {
			next := maps.Clone(chosen)
			next[names[i]] = Candidate{Name: names[i], Version: semver.MustParse(v)}
			if try(i+1, next) {
				return true
			}
		}
		return false
	}
	return try(0, map[string]Candidate{})
}

func (w world) wrong(t *testing.T, graph []string, chosen map[string]Candidate) string {
	all := refs(t, graph)
	for name, c := range chosen {
		all = append(all, refs(t, w[name][c.Version.String()])...)
	}
	for _, r := range all {
		c, ok := chosen[r.Name]
		if !ok || !r.Allows(c.Version) {
			return r.String() + " is not satisfied"
		}
	}
	return ""
}

// A world made to be hard stops at the bound instead of running for hours.
func TestSolveIsBounded(t *testing.T) {
	w := world{}
	for i := range 12 {
		name := fmt.Sprintf("m%02d", i)
		w[name] = map[string][]string{}
		for v := range 8 {
			w[name][fmt.Sprintf("1.%d.0", v)] = []string{"zz@^2"}
		}
		if i > 0 {
			for v := range 8 {
				w[name][fmt.Sprintf("1.%d.0", v)] = nil
			}
		}
	}
	w["zz"] = map[string][]string{"1.0.0": nil}
	s := w.solver(t)
	wants := map[string][]want{}
	var graph []string
	for name := range w {
		if name != "zz" {
			graph = append(graph, name+"@^1")
		}
	}
	for _, r := range append(refs(t, graph), refs(t, []string{"zz@^1"})...) {
		wants[r.Name] = append(wants[r.Name], want{r, "graph"})
	}
	got, err := s.solve(wants, map[string]Candidate{})
	if got != nil || s.steps > maxSteps+1 {
		t.Fatalf("%v, %v after %d steps", versions(got), err, s.steps)
	}
}

// If the search gives up, Resolve reports it and Look continues with the known
// part.
func TestTooManySteps(t *testing.T) {
	var all Manifests
	names := []string{"core", "a", "b", "c", "d", "zz"}
	var want []string
	for _, name := range names {
		for v := range 8 {
			m := &modules.Manifest{Name: name, Version: fmt.Sprintf("1.%d.0", v), Type: abi.Skill}
			if name == "zz" {
				m.Requires = refs(t, []string{"core@^2"}) // found out last
			}
			all = append(all, m)
		}
		want = append(want, name+"@^1")
	}
	g := graph(t, want...)
	_, _, err := Resolve(context.Background(), g, Options{Sources: []Source{all}})
	want1(t, err, diag.TooManySteps, "10,000 steps")
	_, list, err := Look(context.Background(), g, Options{Sources: []Source{all}})
	if err != nil || len(list) != 1 || list[0].Code != diag.TooManySteps || list[0].Severity != diag.Warning {
		t.Errorf("%v, %v", list, err)
	}
}
