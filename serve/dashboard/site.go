package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/workspace"
)

// site is everything that the pages show.
type site struct {
	Versions []*version
	Columns  []*column // of the evaluations, in the order of the versions
	Tasks    []*task
	Charts   []chart
	Missed   int // budgets
	Kept     int
	Better   int // figures beyond chance
	Worse    int
	Open     int // figures that the samples do not decide
	Compat   compatibility
	Channels []channel

	names slugs
	media []File
	held  map[string]string // paths of media by digest
	bytes int64             // of media
}

// version is one manifest with its page.
type version struct {
	workspace.Overview
	Path   string
	Graph  drawing
	Levels []level
	Leads  []string // channels that lead to it
	Was    []string // channels that led to it
}

// Label is the name, the version and the target.
func (v *version) Label() string {
	return line(strings.TrimSpace(v.Card.Name + " " + v.Card.Version + " " + v.Card.Target))
}

// is reports whether a digest with a target names the version.
func (v *version) is(digest, target string) bool {
	return digest == v.Card.Digest || digest == v.Index && (target == v.Card.Target || v.Index == v.Card.Digest)
}

// column is a measured version, or one that is not measured.
type column struct {
	Label  string
	Detail string // engine
	Digest string
	Link   string     // page of the version; "" without one
	Run    *suite.Run // nil: no samples
	Signed []card.Signed
}

// figures returns the figures of a task by metric and filter, and where they are from.
func (c *column) figures(task string) map[string]card.Figure {
	out := map[string]card.Figure{}
	if c.Run != nil {
		for key, i := range c.Run.Results.Intervals[task] {
			value, ok := c.Run.Results.Results[task][key].(float64)
			if !ok {
				continue
			}
			metric, filter, _ := strings.Cut(key, ",")
			out[key] = card.Figure{Metric: metric, Filter: filter, Value: value, Low: i.Low, High: i.High, N: i.N, Method: i.Method, Clusters: i.Clusters, Higher: c.Run.Results.Higher[task][metric]}
		}
		return out
	}
	for _, s := range c.Signed {
		for _, t := range s.Tasks {
			for _, f := range t.Figures {
				if t.Name == task {
					out[f.Name()] = f
				}
			}
		}
	}
	return out
}

// tasks returns the names of the tasks of a column.
func (c *column) tasks() (out []string) {
	if c.Run != nil {
		return c.Run.Results.Tasks()
	}
	for _, s := range c.Signed {
		for _, t := range s.Tasks {
			out = append(out, t.Name)
		}
	}
	return out
}

// attested returns the keys that signed a figure of a task, and whether one signed another
// value of it.
func (c *column) attested(task string, f card.Figure) (keys []string, differs bool) {
	for _, s := range c.Signed {
		for _, t := range s.Tasks {
			for _, g := range t.Figures {
				switch {
				case t.Name != task || g.Name() != f.Name():
				case g.Value == f.Value && g.N == f.N:
					keys = append(keys, head(s.Signer, 12))
				default:
					differs = true
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), differs
}

func newSite(in Input) (*site, error) {
	s := &site{names: slugs{}, held: map[string]string{}}
	for _, name := range []string{"index", "evaluations", "budgets", "compatibility", "evidence"} {
		s.names[name] = 1
	}
	for _, o := range in.Versions {
		v := &version{Overview: o}
		v.Path = s.names.of("build "+v.Card.Name+" "+v.Card.Version+" "+v.Card.Target) + ".html"
		v.Graph, v.Levels = draw(o), levels(o)
		s.Versions = append(s.Versions, v)
	}
	s.channels(in.Channels)
	s.columns(in.Runs)
	if err := s.tasks(); err != nil {
		return nil, err
	}
	s.budgets(in.Budgets)
	s.Compat = fits(s.Versions, in.Compat)
	return s, nil
}

// columns sets the columns: each version with its runs, then runs of other builds.
func (s *site) columns(runs []*suite.Run) {
	used := map[*suite.Run]bool{}
	for _, v := range s.Versions {
		c := column{Label: v.Label(), Digest: v.Card.Digest, Link: v.Path, Signed: v.Card.Evaluations}
		found := false
		for _, r := range runs {
			if from := r.Results.MM; v.is(from.Digest, from.Target) {
				one := c
				one.Run, one.Detail, used[r], found = r, line(from.Engine), true, true
				s.Columns = append(s.Columns, &one)
			}
		}
		if !found && (len(c.Signed) > 0 || len(runs) > 0) {
			c.Detail = "no results"
			if len(c.Signed) > 0 {
				c.Detail = "signed evaluation"
			}
			s.Columns = append(s.Columns, &c)
		}
	}
	for _, r := range runs {
		if !used[r] {
			from := r.Results.MM
			s.Columns = append(s.Columns, &column{Label: line(strings.TrimSpace(from.Model + " " + from.Target)), Detail: line(from.Engine), Digest: from.Digest, Run: r})
		}
	}
}

// Cell is the figure of a column.
type Cell struct {
	Column  *column
	Figure  *card.Figure // nil: not measured
	Against *column      // the column that it is compared with; nil: none
	Delta   *suite.Compared
	Note    string   // why it is not compared
	Keys    []string // that signed the figure
	Differs bool     // a key signed another value
}

// Row is a figure of a task in all columns.
type Row struct {
	Name   string // METRIC,FILTER
	Higher bool
	Cells  []*Cell
	Plot   plot
}

// task is a task with its figures and samples.
type task struct {
	Name    string
	Path    string
	Config  string
	Columns []*column // that have it
	Rows    []*Row
	Changes []change
	More    int // changes that are not shown
	Pages   []*samplePage
	Total   int // samples
	Shown   int
}

// tasks sets the tasks, compares the columns and lists the samples.
func (s *site) tasks() error {
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.tasks()...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxTasks {
		return fmt.Errorf("too many tasks: got %d, limit %d", len(names), maxTasks)
	}
	for _, name := range names {
		t := &task{Name: name, Path: s.names.of("task "+name) + ".html"}
		s.figures(t)
		s.Tasks = append(s.Tasks, t)
	}
	s.compareAll()
	for _, t := range s.Tasks {
		for _, r := range t.Rows {
			r.Plot = plotted(r)
		}
		s.samples(t)
	}
	return nil
}

// figures sets the rows of a task.
func (s *site) figures(t *task) {
	var keys []string
	all := make([]map[string]card.Figure, len(s.Columns))
	for i, c := range s.Columns {
		if all[i] = c.figures(t.Name); len(all[i]) > 0 {
			t.Columns = append(t.Columns, c)
		}
		for key := range all[i] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		r := &Row{Name: key}
		for i, c := range s.Columns {
			cell := &Cell{Column: c}
			if f, ok := all[i][key]; ok {
				cell.Figure, r.Higher = &f, f.Higher
				cell.Keys, cell.Differs = c.attested(t.Name, f)
			}
			r.Cells = append(r.Cells, cell)
		}
		t.Rows = append(t.Rows, r)
	}
}

// before returns the nearest column on the left that has the task; nil without one.
func (s *site) before(i int, task string) *column {
	for j := i - 1; j >= 0; j-- {
		if slices.Contains(s.Columns[j].tasks(), task) {
			return s.Columns[j]
		}
	}
	return nil
}

// compareAll compares each column with the one before, all their common tasks together, so
// that p values are adjusted for the number of figures.
func (s *site) compareAll() {
	for i, c := range s.Columns {
		groups := map[*column][]string{}
		before, notes := map[string]*column{}, map[string]string{}
		for _, t := range s.Tasks {
			b := s.before(i, t.Name)
			before[t.Name] = b
			switch {
			case b == nil || !slices.Contains(c.tasks(), t.Name):
			case b.Run == nil || c.Run == nil:
				notes[t.Name] = "not compared: no samples"
			case !suite.Comparable(b.Run, c.Run, t.Name):
				notes[t.Name] = "not compared: other questions"
			default:
				groups[b] = append(groups[b], t.Name)
			}
		}
		found := map[string]*suite.Compared{}
		for _, b := range s.Columns[:i] {
			if len(groups[b]) == 0 {
				continue
			}
			rows, _ := suite.Compare(b.Run, c.Run, suite.CompareOptions{Tasks: groups[b]})
			for _, r := range rows {
				found[r.Task+"\n"+r.Metric+","+r.Filter] = &r
			}
		}
		for _, t := range s.Tasks {
			for _, r := range t.Rows {
				s.judge(r.Cells[i], before[t.Name], notes[t.Name], found[t.Name+"\n"+r.Name])
			}
		}
	}
}

// judge sets the comparison of a cell with a column, or the note on why it is not compared.
func (s *site) judge(c *Cell, before *column, note string, d *suite.Compared) {
	if c.Figure == nil || before == nil {
		return
	}
	c.Against, c.Note, c.Delta = before, note, d
	if d == nil {
		return
	}
	switch d.Verdict {
	case suite.Better:
		s.Better++
	case suite.Worse:
		s.Worse++
	default:
		s.Open++
	}
}

// channel is a channel with the pages of its artifacts.
type channel struct {
	workspace.Channel
	Steps []step // the newest first
}

// step is a version of a channel.
type step struct {
	workspace.ChannelVersion
	Label string // of the artifact; "" for one that is not shown
	Link  string
}

// channels sets the channels with the versions that they lead to.
func (s *site) channels(all []workspace.Channel) {
	for _, c := range all {
		one := channel{Channel: c}
		for i, v := range c.Versions {
			st := step{ChannelVersion: v}
			for _, o := range s.Versions {
				if o.Index != v.Digest && o.Card.Digest != v.Digest {
					continue
				}
				st.Label, st.Link = cmp.Or(st.Label, line(o.Card.Name+" "+o.Card.Version)), cmp.Or(st.Link, o.Path)
				if i == 0 {
					o.Leads = append(o.Leads, line(c.Name))
				} else if !slices.Contains(o.Was, line(c.Name)) && !slices.Contains(o.Leads, line(c.Name)) {
					o.Was = append(o.Was, line(c.Name))
				}
			}
			one.Steps = append(one.Steps, st)
		}
		s.Channels = append(s.Channels, one)
	}
}

// Released counts the versions that a trusted key released.
func (s *site) Released() (n int) {
	for _, v := range s.Versions {
		if len(v.Keys) > 0 {
			n++
		}
	}
	return n
}

// HasEvidence reports whether there is a statement about the version.
func (v *version) HasEvidence() bool {
	return slices.ContainsFunc(v.Levels, func(l level) bool { return l.State != "absent" })
}

// limited is a tool with its limits.
type limited struct {
	Name   string
	Limits string
	Asks   []string
}

// Limited lists the tools of a version with their limits.
func (v *version) Limited() (out []limited) {
	if v.Assembly == nil {
		return nil
	}
	for _, s := range v.Assembly.Skills {
		out = append(out, limited{line(s.ID()), line(s.Limits.String()), s.Asks().List()})
	}
	if s := v.Assembly.Sandbox; s != nil {
		out = append(out, limited{line(s.ID()), line(s.Limits.String()), nil})
	}
	return out
}
