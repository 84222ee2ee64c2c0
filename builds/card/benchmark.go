package card

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ResultsFolder is the folder of a repository at a model hub that holds results of
// benchmarks, a file of YAML for each.
const ResultsFolder = ".eval_results"

// Benchmark is a data set of a model hub that ranks models. A task file names it in
// metadata.eval_results: it is never guessed.
type Benchmark struct {
	ID       string `json:"id"` // of the data set
	Task     string `json:"task_id"`
	Metric   string `json:"metric,omitempty"`   // METRIC,FILTER. Empty: the only one
	Revision string `json:"revision,omitempty"` // commit of the data set
}

// benchmarkPatterns match the fields of a benchmark.
var benchmarkPatterns = sync.OnceValue(func() (out struct{ id, task, revision *regexp.Regexp }) {
	const name = `[A-Za-z0-9][A-Za-z0-9._-]{0,95}`
	out.id, out.task = regexp.MustCompile(`^`+name+`/`+name+`$`), regexp.MustCompile(`^`+name+`$`)
	out.revision = regexp.MustCompile(`^([0-9a-f]{40})?$`)
	return out
})

// benchmarkOf returns the benchmark that a task's configuration names, or nil.
func benchmarkOf(config []byte) (*Benchmark, error) {
	var c struct {
		Metadata struct {
			Benchmark *Benchmark `json:"eval_results"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("metadata.eval_results: %w", err)
	}
	return c.Metadata.Benchmark, nil
}

// checkBenchmark refuses a benchmark that is malformed or whose figure is not clear.
func (t Task) checkBenchmark() error {
	b, p := t.Benchmark, benchmarkPatterns()
	switch {
	case b == nil:
		return nil
	case !p.id.MatchString(b.ID):
		return fmt.Errorf("benchmark: got id %.100q, want OWNER/NAME of a data set", b.ID)
	case !p.task.MatchString(b.Task):
		return fmt.Errorf("benchmark: got task_id %.100q, want letters, digits and . _ -", b.Task)
	case !p.revision.MatchString(b.Revision):
		return fmt.Errorf("benchmark: got revision %.60q, want a commit of 40 hex digits", b.Revision)
	}
	if _, ok := t.benchmarkFigure(); !ok {
		var names []string
		for _, f := range t.Figures {
			names = append(names, f.Name())
		}
		return fmt.Errorf("benchmark: got metric %.100q, want one of %s", b.Metric, strings.Join(names, ", "))
	}
	return nil
}

// benchmarkFigure returns the figure that the benchmark ranks models by.
func (t Task) benchmarkFigure() (Figure, bool) {
	if t.Benchmark.Metric == "" && len(t.Figures) == 1 {
		return t.Figures[0], true
	}
	i := slices.IndexFunc(t.Figures, func(f Figure) bool { return f.Name() == t.Benchmark.Metric })
	if i < 0 {
		return Figure{}, false
	}
	return t.Figures[i], true
}

// left returns why results of benchmarks are left out of [ResultsFolder].
func (s Signed) left() (notes []string) {
	for _, t := range s.Tasks {
		if t.Benchmark == nil {
			continue
		}
		if f, _ := t.benchmarkFigure(); f.N < t.Original {
			notes = append(notes, fmt.Sprintf("%s of %s asked %d of %d questions", t.Name, t.Benchmark.ID, f.N, t.Original))
		}
	}
	return notes
}

// EvalResults returns the files of [ResultsFolder] by name. Each entry has the value of a
// signed statement. Tasks without a benchmark, or that asked a part of their
// questions, have none. An entry has no token of the hub, which mm cannot make.
func (c *Card) EvalResults() map[string][]byte {
	files := map[string][]byte{}
	c.figures(func(s Signed, t Task, f Figure) {
		if t.Benchmark == nil {
			return
		}
		if one, _ := t.benchmarkFigure(); one != f || f.N < t.Original {
			return
		}
		name := strings.ReplaceAll(t.Benchmark.ID, "/", "--") + "--" + t.Benchmark.Task + ".yaml"
		files[name] = append(files[name], c.entry(s, t, f)...)
	})
	return files
}

// entry returns an entry of a benchmark's file.
func (c *Card) entry(s Signed, t Task, f Figure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- dataset:\n    id: %q\n    task_id: %q\n", t.Benchmark.ID, t.Benchmark.Task)
	if t.Benchmark.Revision != "" {
		fmt.Fprintf(&b, "    revision: %q\n", t.Benchmark.Revision)
	}
	notes := []string{f.Name(), fmt.Sprintf("n %d", f.N), fmt.Sprintf("%s to %s (%s)", Number(f.Low), Number(f.High), f.Method), t.Slice(), "suite " + t.Suite, "engine " + s.Engine}
	if t.Cut > 0 {
		notes = append(notes, fmt.Sprintf("the start of %d questions did not fit the context", t.Cut))
	}
	if s.Failed {
		notes = append(notes, "a limit was missed")
	}
	notes = append(notes, "manifest "+c.Digest, "signed by "+s.Signer)
	fmt.Fprintf(&b, "  value: %s\n  notes: %q\n", Number(f.Value), strings.Join(notes, "; "))
	return b.String()
}

// The files of a card.
const (
	Readme   = "README.md"
	JSONFile = "mm-card.json"
)

// Files returns the files of the card by their paths in a repository of a model hub.
func (c *Card) Files() (map[string][]byte, error) {
	facts, err := c.JSON()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{Readme: c.Markdown(), JSONFile: facts}
	for name, text := range c.EvalResults() {
		files[path.Join(ResultsFolder, name)] = text
	}
	return files, nil
}

// Names returns the paths of files in order.
func Names(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
