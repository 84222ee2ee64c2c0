package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/trust"
)

// hostile is a text as an attacker would put into a manifest or a sample.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>"'&{{.Site}}` + "\u202egnp.exe\x1b[31m\x00 javascript:alert(3)"

// overview returns a build with a core, an encoder and a skill.
func overview(version, target, name string) workspace.Overview {
	digest := "sha256:" + strings.Repeat(version[:1], 64)
	part := func(name string, t abi.ModuleType) builds.Part {
		return builds.Part{Name: name, Version: "1.0.0", Type: t, Digest: "sha256:" + strings.Repeat("a", 64), Files: builds.Formats{"onnx": {"x.onnx"}}, Quant: "int8"}
	}
	a := &builds.Assembly{
		Name: name, Version: version, Core: part("core", abi.Core), Tokens: abi.TokenContract{MaxSeq: 512},
		Modalities: []builds.ModalityPart{{Modality: abi.Image, Encoder: part("eye", abi.Encoder), Projector: part("lens", abi.Projector), TCap: 64}},
		Skills:     []builds.SkillPart{{Part: part("calc", abi.Skill), Limits: modules.Effective{TimeoutMS: 500}}},
	}
	o := workspace.Overview{
		Ref: "r", Index: digest, Size: 3 << 20, Files: 4, Assembly: a,
		Card: &card.Card{Name: name, Version: version, Target: target, Digest: digest, Description: name, License: "MIT"},
		Keys: []trust.Signer{{ID: "0123456789abcdef", Name: "me"}},
		Evidence: workspace.Evidence{Statements: []workspace.Statement{
			{Type: "https://cyclonedx.org/bom", Signer: trust.Signer{ID: "0123456789abcdef", Name: "me"}},
			{Type: card.Type, Signer: trust.Signer{ID: "k"}, Failed: true}, {Type: "https://slsa.dev/provenance/v1", Fault: "bad " + name},
		}},
	}
	for _, p := range a.Parts() {
		o.Modules = append(o.Modules, workspace.PartOverview{Module: card.Module{Name: p.Name, Version: p.Version, Type: string(p.Type), Digest: p.Digest, License: "MIT", Quant: "int8"}, ABI: "mm-abi-1.0", Core: "core@1.0.0", Files: p.Files})
	}
	return o
}

// run writes and reads results of n documents, of which the first right ones are right.
func run(t *testing.T, digest, ask string, n, right int) *suite.Run {
	t.Helper()
	o := &suite.Outcome{Task: "sums", Config: json.RawMessage(`{"task":"sums"}`), Version: 1, Original: n}
	choose := &suite.Outcome{Task: "choose", Config: json.RawMessage(`{"task":"choose"}`), Version: 1, Original: 1}
	sum := 0.0
	for i := range n {
		x := 0.0
		if i < right {
			x = 1
		}
		sum += x
		doc, _ := json.Marshal(map[string]string{"q": ask})
		o.Samples = append(o.Samples, suite.Sample{ID: i, Doc: doc, Target: json.RawMessage(`"42"`), Arguments: [][]any{{ask, map[string]any{"until": []string{"."}}}}, Answers: [][]any{{ask}}, Filtered: []any{"41"}, Filter: "none", Names: []string{"exact_match"}, Metrics: map[string][]float64{"exact_match": {x}}})
	}
	o.Scores = []suite.Score{{Metric: "exact_match", Filter: "none", Value: sum / float64(n), N: n, Method: "Wilson, 95 %", Higher: true}}
	o.Samples[0].Calls = []suite.Called{{Name: ask, Arguments: json.RawMessage(`"` + strings.Repeat("a", 20) + `"`), Answer: ask}}
	for range maxCalls {
		o.Samples[0].Calls = append(o.Samples[0].Calls, o.Samples[0].Calls[0])
	}
	choose.Samples = []suite.Sample{{ID: 0, Doc: json.RawMessage(`{}`), Target: json.RawMessage(`1`), Arguments: [][]any{{ask, " red"}, {ask, " blue"}}, Answers: [][]any{{[]any{-1.0, true}}, {[]any{-2.0, false}}}, Filtered: []any{1}, Filter: "none", Names: []string{"acc"}, Metrics: map[string][]float64{"acc": {0}}}}
	choose.Scores = []suite.Score{{Metric: "acc", Filter: "none", Value: 0, N: 1, Method: "Wilson, 95 %", Higher: true}}
	dir := t.TempDir()
	all := []*suite.Outcome{choose, o}
	if err := suite.NewResults(suite.Source{Model: ask, Digest: digest, Engine: "core"}, all, nil).Write(dir, all); err != nil {
		t.Fatal(err)
	}
	r, list := suite.ReadRun(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	return r
}

// input has three versions, of which two are measured, and results of another build.
func input(t *testing.T) Input {
	t.Helper()
	value := 50.0
	in := Input{Versions: []workspace.Overview{overview("1.0.0", "", hostile), overview("2.0.0", "phone", hostile), overview("3.0.0", "", hostile)}}
	one, two := in.Versions[0].Card.Digest, in.Versions[1].Card.Digest
	in.Runs = []*suite.Run{run(t, one, hostile, 45, 10), run(t, two, hostile, 45, 40), run(t, "sha256:other", "another question", 3, 0)}
	in.Versions[1].Card.Evaluations = []card.Signed{{Signer: "0123456789abcdef", Evaluation: card.Evaluation{Tasks: []card.Task{{Name: "sums", Figures: []card.Figure{{Metric: "exact_match", Filter: "none", Value: 0.5, N: 45}}}}}}}
	row := eval.Row{Budget: hostile, Limit: 100, Value: &value, Passed: true}
	in.Budgets = []eval.Report{{Source: suite.Source{Digest: one}, Rows: []eval.Row{row, {Budget: "memory.peak", Limit: 10, Bytes: true}}}, {Source: suite.Source{Digest: two}, Rows: []eval.Row{row}}}
	in.Channels = []workspace.Channel{{Repository: hostile, Name: "prod", Versions: []workspace.ChannelVersion{
		{ChannelDocument: workspace.ChannelDocument{Version: 2, Digest: two, Created: "2026-01-02T03:04:05Z", Evidence: []string{hostile}}, Key: "k"},
		{ChannelDocument: workspace.ChannelDocument{Version: 1, Digest: one, Rollback: true}, Key: "k"},
	}}, {Repository: "r", Name: "test", Fault: "frozen"}}
	in.Compat = builds.Compat{{Build: hostile, Core: "c", Module: "m", Result: "faults"}}
	return in
}

func rendered(t *testing.T, in Input) map[string]string {
	t.Helper()
	files, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		if out[f.Path] != "" {
			t.Errorf("%s is written twice", f.Path)
		}
		out[f.Path] = string(f.Data)
	}
	return out
}

// Texts of others are data on every page: neither markup nor invisible characters pass.
func TestHostileTexts(t *testing.T) {
	tag := regexp.MustCompile(`(?i)<\s*/?\s*(script|style|iframe|object|embed|form|base)|<[^>]*\s(on\w+|style)\s*=`)
	value := regexp.MustCompile(`="[^"]*"`)
	for path, data := range rendered(t, input(t)) {
		if !strings.HasSuffix(path, ".html") {
			continue
		}
		if !strings.Contains(data, `http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src`) {
			t.Errorf("%s: no policy", path)
		}
		if m := tag.FindString(value.ReplaceAllString(data, `=""`)); m != "" {
			t.Errorf("%s: got %q", path, m)
		}
		if i := strings.IndexAny(data, "\u202e\x00\x1b"); i >= 0 {
			t.Errorf("%s: an invisible character: %q", path, data[max(0, i-20):i+5])
		}
		if strings.Count(data, "<h1>") != 1 || strings.Contains(data, "<no value>") || strings.Contains(data, "ZgotmplZ") {
			t.Errorf("%s: bad template", path)
		}
	}
}

// Every link leads to a page and a place of it, and every page is reachable.
func TestLinks(t *testing.T) {
	all := rendered(t, input(t))
	link := regexp.MustCompile(`(?:href|src)="([^"#]*)(?:#([^"]*))?"`)
	reached := map[string]bool{}
	for path, data := range all {
		for _, m := range link.FindAllStringSubmatch(data, -1) {
			to := m[1]
			if to == "" {
				to = path
			}
			if reached[to] = true; all[to] == "" {
				t.Errorf("%s: a link to %s", path, to)
			}
			if m[2] != "" && !strings.Contains(all[to], ` id="`+m[2]+`"`) {
				t.Errorf("%s: a link to %s#%s", path, to, m[2])
			}
		}
	}
	for path := range all {
		if !reached[path] {
			t.Errorf("%s: no page leads here", path)
		}
	}
}

// Equal inputs have equal bytes.
func TestDeterministic(t *testing.T) {
	a, b := rendered(t, input(t)), rendered(t, input(t))
	for path := range a {
		if a[path] != b[path] {
			t.Errorf("%s differs", path)
		}
	}
}

// The comparison is that of the samples in pairs, and each figure without one has a reason.
func TestComparison(t *testing.T) {
	in := input(t)
	s, err := newSite(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Columns) != 4 || s.Columns[2].Detail != "no results" || s.Columns[3].Link != "" {
		t.Fatalf("got %d columns", len(s.Columns))
	}
	sums := s.Tasks[1]
	cells := sums.Rows[0].Cells
	if d := cells[1].Delta; d == nil || d.Verdict != suite.Better || d.N != 45 || d.OnlyB != 30 {
		t.Errorf("got %+v", d)
	}
	if !cells[1].Differs || cells[0].Delta != nil || cells[2].Figure != nil || cells[3].Note != "not compared: other questions" {
		t.Errorf("got %+v", cells)
	}
	if s.Better != 1 || s.Worse != 0 || s.Open != 1 || s.Kept != 2 || s.Missed != 1 || s.Released() != 3 {
		t.Errorf("got better %d, worse %d, open %d, kept %d, missed %d, released %d", s.Better, s.Worse, s.Open, s.Kept, s.Missed, s.Released())
	}
	if len(sums.Changes) != 33 || !sums.Changes[0].Better && sums.Changes[0].Sample.ID > 2 {
		t.Errorf("got %d changes", len(sums.Changes))
	}
	if sums.Total != 45 || len(sums.Pages) != 3 || !sums.Pages[0].Samples[0].Answers[2].Other {
		t.Errorf("got %d samples on %d pages", sums.Total, len(sums.Pages))
	}
	if n := len(sums.Pages[0].Samples[0].Answers[0].Calls); n != maxCalls {
		t.Errorf("maxCalls: got %d", n)
	}
	choice := s.Tasks[0].Pages[0].Samples[0]
	if len(choice.Options) != 2 || !choice.Options[1].Gold || !choice.Options[0].Scores[1].Picks || choice.Options[0].Scores[1].Shown != "−1.000" || choice.Target != "blue" {
		t.Errorf("got %+v", choice.Options)
	}
	if v := s.Versions[1]; v.Leads[0] != "prod" || s.Versions[0].Was[0] != "prod" || s.Channels[0].Steps[1].Link != s.Versions[0].Path {
		t.Errorf("got %+v", v)
	}
	var states []string
	for _, l := range s.Versions[0].Levels {
		states = append(states, l.State)
	}
	if got := strings.Join(states, " "); got != "verified absent invalid failed" {
		t.Errorf("got %s", got)
	}
}

// A signed evaluation without samples has figures and no comparison.
func TestSignedAlone(t *testing.T) {
	in := Input{Versions: []workspace.Overview{overview("1.0.0", "", "a"), overview("2.0.0", "", "a")}}
	for i := range in.Versions {
		in.Versions[i].Card.Evaluations = []card.Signed{{Signer: "k", Evaluation: card.Evaluation{Tasks: []card.Task{{Name: "t", Figures: []card.Figure{{Metric: "acc", Filter: "none", Value: 0.5, Low: 0.4, High: 0.6, N: 9, Higher: true}}}}}}}
	}
	s, err := newSite(in)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Tasks[0].Rows[0].Cells[1]
	if c.Figure == nil || c.Delta != nil || c.Note != "not compared: no samples" || len(c.Keys) != 1 || s.Tasks[0].Pages != nil {
		t.Errorf("got %+v", c)
	}
	rendered(t, in)
	rendered(t, Input{})
}

// Each limit on either side.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Input
		ok   bool
	}{
		{"maxVersions", Input{Versions: repeat(maxVersions)}, true}, {"over maxVersions", Input{Versions: repeat(maxVersions + 1)}, false},
		{"maxRuns", Input{Budgets: make([]eval.Report, maxRuns)}, true}, {"over maxRuns", Input{Budgets: make([]eval.Report, maxRuns+1)}, false},
		{"maxTasks", Input{Versions: tasks(maxTasks)}, true}, {"over maxTasks", Input{Versions: tasks(maxTasks + 1)}, false},
	} {
		if _, err := Render(c.in); (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	for n, want := range map[int]string{maxText: strings.Repeat("x", maxText), maxText + 1: strings.Repeat("x", maxText) + " … (8193 B in all)"} {
		if got := text(strings.Repeat("x", n)); got != want {
			t.Errorf("maxText: got %d bytes of %d", len(got), n)
		}
	}
	for n, want := range map[int]string{maxLine: strings.Repeat("x", maxLine), maxLine + 1: strings.Repeat("x", maxLine) + " … (201 B in all)"} {
		if got := line(strings.Repeat("x", n)); got != want {
			t.Errorf("maxLine: got %q", got)
		}
	}
	many, _ := newSite(Input{Runs: []*suite.Run{run(t, "d", "q", maxSamples+1, 0), run(t, "d", "q", maxSamples+1, maxChanges+1)}})
	if one := many.Tasks[1]; one.Total != maxSamples+1 || one.Shown != maxSamples || len(one.Pages) != maxSamples/maxOnPage || len(one.Changes) != maxChanges || one.More != 1 {
		t.Errorf("maxSamples: got %d of %d on %d pages, %d changes", one.Shown, one.Total, len(one.Pages), len(one.Changes))
	}
	few, _ := newSite(Input{Runs: []*suite.Run{run(t, "d", "q", maxOnPage, 0), run(t, "d", "q", maxOnPage, 0)}})
	if one := few.Tasks[1]; len(one.Pages) != 1 || one.Pages[0].Next != nil || len(one.Pages[0].Samples) != maxOnPage {
		t.Errorf("maxOnPage: got %d pages", len(one.Pages))
	}
	sample := suite.Sample{Target: json.RawMessage("0")}
	for range maxOptions + 1 {
		sample.Arguments = append(sample.Arguments, []any{"q", " a"})
	}
	if got := len((&site{}).document(sample).Options); got != maxOptions {
		t.Errorf("maxOptions: got %d", got)
	}
	if c := fits(nil, make(builds.Compat, maxChecked+1)); len(c.Checked) != maxChecked || c.More != 1 {
		t.Errorf("maxChecked: got %d and %d", len(c.Checked), c.More)
	}
}

func repeat(n int) (out []workspace.Overview) {
	for range n {
		out = append(out, overview("1.0.0", "", "a"))
	}
	return out
}

func tasks(n int) []workspace.Overview {
	o := overview("1.0.0", "", "a")
	var all []card.Task
	for i := range n {
		all = append(all, card.Task{Name: fmt.Sprint(i), Figures: []card.Figure{{Metric: "acc", Filter: "none", N: 1}}})
	}
	o.Card.Evaluations = []card.Signed{{Evaluation: card.Evaluation{Tasks: all}}}
	return []workspace.Overview{o}
}

// A dashboard replaces a dashboard, with the pages that are gone, and nothing else.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pages")
	files, err := Render(input(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	few, err := Render(Input{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, few); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(few) {
		t.Errorf("got %d files of %d, %v", len(entries), len(few), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil || !bytes.Contains(data, []byte("No version was named.")) {
		t.Errorf("got %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "index.html"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(other, few); err == nil {
		t.Error("got no error for a folder of others")
	}
}

// Images of an earlier dashboard are removed, whatever characters the path has; other files
// are kept.
func TestWriteMedia(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[1]")
	few, err := Render(Input{})
	if err != nil {
		t.Fatal(err)
	}
	media := func(c string) File { return File{"media/" + strings.Repeat(c, 64) + ".png", []byte("x")} }
	old, kept, other := media("a"), media("b"), File{"media/notes.txt", []byte("x")}
	for _, files := range [][]File{append(few, old, kept, other), append(few, kept)} {
		if err := Write(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	for f, want := range map[string]bool{old.Path: false, kept.Path: true, other.Path: true} {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f))); (err == nil) != want {
			t.Errorf("%s: got %v", f, err)
		}
	}
}

// The graph has a box for each module, its digest and limits, and arrows between them.
func TestGraph(t *testing.T) {
	d := draw(overview("1.0.0", "", "a"))
	var text []string
	for _, b := range d.Boxes {
		text = append(text, b.Name)
		for _, l := range b.Lines {
			text = append(text, l.Text)
		}
		if b.X < 0 || b.Y < 0 || b.X+b.W > d.Width || b.Y+b.H > d.Height {
			t.Errorf("%s is outside", b.Name)
		}
	}
	all := strings.Join(text, "\n")
	for _, want := range []string{"eye@1.0.0", "sha256:aaaaaaaaaaaa", "at most 512 tokens", "at most 64 positions", "500 ms", "ONNX int8"} {
		if !strings.Contains(all, want) {
			t.Errorf("got %s, want %s", all, want)
		}
	}
	if want := "eye@1.0.0 feeds lens@1.0.0; lens@1.0.0 feeds core@1.0.0; core@1.0.0 calls calc@1.0.0"; d.Caption != want || len(d.Arrows) != 3 {
		t.Errorf("got %s", d.Caption)
	}
}

// A line without a valid character, and a cut inside of one.
func TestCut(t *testing.T) {
	if got := head("aé", 2); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := last("éa", 2); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := text("a\n\tb\xff\r"); got != "a\n\tb\\xff\\r" {
		t.Errorf("got %q", got)
	}
	s := slugs{}
	if a, b, c := s.of("A b/../ü"), s.of("a-b"), s.of("\u202e"); a != "a-b" || b != "a-b-2" || c != "x" {
		t.Errorf("got %s %s %s", a, b, c)
	}
}

// No text keeps an invisible character or a size beyond its limit.
func FuzzText(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{line(s), text(s), tail(s)} {
			if strings.ContainsAny(got, "\u202e\x00\x1b\r") || len(got) > 8*maxText {
				t.Errorf("got %q", got)
			}
		}
	})
}
