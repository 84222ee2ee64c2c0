package part

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// engines returns two engines; the first cannot open image-proj.
func engines() []runtimes.Engine {
	return []runtimes.Engine{&runtimetest.Engine{Called: "first", Cannot: []string{"image-proj"}}, &runtimetest.Engine{Called: "second"}}
}

// set opens a build with both engines.
func set(t *testing.T, b *builds.Build, opt Options) *Set {
	t.Helper()
	if opt.Engines == nil {
		opt.Engines = engines()
	}
	s, err := Open(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A part runs on the engine of its option, else of the core's option, else of the graph, else on
// the first engine that can; and on no other.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		core  bool
		graph string // the backend in the graph, of every part
		opt   Options
		want  string // core, image-enc, image-proj; or the error
		over  string
	}{
		"no request":               {true, "", Options{}, "first first second", "[]"},
		"the graph":                {true, "second", Options{}, "second second second", "[]"},
		"a part":                   {true, "", Options{Backends: map[string]string{"image-enc": "second"}}, "first second second", "[]"},
		"a part before the graph":  {true, "second", Options{Backends: map[string]string{"image-enc": "first"}}, "second first second", "[{image-enc second first}]"},
		"the core alone":           {true, "", Options{Engine: "second"}, "second first second", "[]"},
		"the core before graph":    {true, "second", Options{Engine: "first"}, "first second second", "[{core second first}]"},
		"the part before the core": {true, "", Options{Engine: "second", Backends: map[string]string{"core": "first"}}, "first first second", "[]"},
		"all of a build without":   {false, "", Options{Engine: "second"}, "- second second", "[]"},
		"the same is no override":  {true, "second", Options{Engine: "second", Backends: map[string]string{"image-enc": "second"}}, "second second second", "[]"},
		"one that cannot":          {true, "first", Options{}, "first first the graph requests backend first", "[]"},
		"one that is not there":    {true, "third", Options{Backends: map[string]string{"core": "first"}}, "first the graph requests backend third the graph requests backend third", "[{core third first}]"},
	} {
		b := runtimetest.Build(t, c.core, "image-enc", "image-proj")
		b.Assembly.Core.Backend, b.Assembly.Modalities[0].Encoder.Backend, b.Assembly.Modalities[0].Projector.Backend = c.graph, c.graph, c.graph
		s := set(t, b, c.opt)
		var got []string
		for _, p := range []builds.Part{b.Assembly.Core, b.Assembly.Modalities[0].Encoder, b.Assembly.Modalities[0].Projector} {
			e, err := s.Choose(t.Context(), p)
			switch u := (*runtimes.Unavailable)(nil); {
			case p.Name == "":
				got = append(got, "-")
			case err == nil:
				got = append(got, e.Name())
			case errors.As(err, &u):
				got = append(got, u.Why[:strings.IndexByte(u.Why, ':')])
				if u.What != p.ID() {
					t.Errorf("%s: %q is missing", name, u.What)
				}
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		if over := fmt.Sprint(s.Overrides()); over != c.over {
			t.Errorf("%s: overrides %s, want %s", name, over, c.over)
		}
	}
}

// The engines of the options are checked when a set is opened, and their names must be parts that
// engines open; those of the graph are not.
func TestOpen(t *testing.T) {
	gone := []runtimes.Engine{&runtimetest.Engine{Called: "first"}, &runtimetest.Engine{Called: "gone", Gone: true}}
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"nothing":                  {Options{}, ""},
		"an unknown engine":        {Options{Backends: map[string]string{"image-enc": "third"}}, "--backend requests backend third"},
		"a part on one gone":       {Options{Engines: gone, Backends: map[string]string{"image-enc": "gone"}}, "--backend requests backend gone"},
		"the request of the graph": {Options{Engines: gone, Backends: map[string]string{"img-dec": "gone"}}, ""},
		"no part":                  {Options{Backends: map[string]string{"image-en": "first"}}, `unknown part "image-en"`},
		"the draft":                {Options{Backends: map[string]string{"small": "first"}}, "small drafts for core"},
		"a skill":                  {Options{Backends: map[string]string{"tool": "first"}}, `unknown part "tool"`},
		"fewer than no threads":    {Options{Limits: runtimes.Limits{Threads: -1}}, "-1 threads"},
	} {
		b := runtimetest.Build(t, true, "image-enc", "image-proj", "img-dec")
		b.Assembly.Decoders[0].Backend = "gone"
		b.Assembly.Draft = &builds.Part{Name: "small", Type: abi.DraftCore}
		b.Assembly.Skills = []builds.SkillPart{{Part: builds.Part{Name: "tool", Type: abi.Skill}}}
		if c.opt.Engines == nil {
			c.opt.Engines = engines()
		}
		_, err := Open(t.Context(), b, c.opt)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if h := interface{ Hint() string }(nil); name == "a skill" && (!errors.As(err, &h) || h.Hint() != "known: core, image-enc, image-proj, img-dec") {
			t.Errorf("%s: %s", name, h.Hint())
		}
	}
	twice := runtimetest.Build(t, false, "image-enc", "image-proj")
	twice.Assembly.Modalities = append(twice.Assembly.Modalities, twice.Assembly.Modalities[0])
	if got := opened(twice.Assembly); len(got) != 2 {
		t.Errorf("a module that is used twice is opened as %v", got)
	}
}
