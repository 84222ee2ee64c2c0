package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/eval/suite"
)

// The limits of the samples of a task.
const (
	maxSamples = 500 // documents shown
	maxOnPage  = 20
	maxChanges = 100
	maxOptions = 32 // choices of a question
	maxCalls   = 16 // calls of an answer
)

// samplePage is a page of samples.
type samplePage struct {
	Task     *task
	Path     string
	Number   int
	Previous *samplePage
	Next     *samplePage
	Samples  []*sample
}

// sample is a document with the answers of all columns.
type sample struct {
	ID      int
	Anchor  string
	Link    string // page and anchor
	Prompt  string
	Ask     string // the end of the prompt
	Target  string
	Fields  []field
	Media   []medium
	Options []option
	Columns []*column // that answered it, for the options
	Answers []answer
	Changed bool
}

// field is a field of a document.
type field struct{ Name, Value string }

// call is a call of a skill before an answer.
type call struct{ Name, Arguments, Output string }

// option is a choice with its log likelihood in each column.
type option struct {
	Text   string
	Gold   bool
	Scores []score
}

type score struct {
	Shown string
	Picks bool // the most likely choice
}

// answer is the answer of a column under a filter.
type answer struct {
	Column   *column
	Filter   string
	Text     string // generated; "" for choices
	Filtered string // "" if it is Text
	State    string // right, wrong; "" for figures that are neither
	Metrics  string
	Calls    []call
	Other    bool // the column was asked another question
}

// change is a document whose answer is right in one column and wrong in the next.
type change struct {
	Sample *sample
	From   *column
	To     *column
	Better bool
}

// samples sets the samples of a task: its documents in the order of their ids.
func (s *site) samples(t *task) {
	byID := map[int]*sample{}
	var order []int
	for _, c := range t.Columns {
		if c.Run == nil {
			continue
		}
		if t.Config == "" {
			var b bytes.Buffer
			if json.Indent(&b, c.Run.Results.Configs[t.Name], "", "  ") == nil {
				t.Config = text(b.String())
			}
		}
		for _, one := range c.Run.Samples(t.Name) {
			d := byID[one.ID]
			if d == nil {
				if order = append(order, one.ID); len(order) > maxSamples {
					continue
				}
				d = s.document(one)
				d.Media = s.recorded(c.Run.Dir, one.Media)
				byID[one.ID] = d
			}
			if d != nil {
				d.add(c, one)
			}
		}
	}
	slices.Sort(order)
	order = slices.Compact(order)
	t.Total = len(order)
	for _, id := range order {
		if d := byID[id]; d != nil {
			s.place(t, d)
		}
	}
	for _, p := range t.Pages {
		for _, d := range p.Samples {
			t.changes(d)
		}
	}
}

// place puts a document on the last page, or on a new one.
func (s *site) place(t *task, d *sample) {
	var p *samplePage
	if n := len(t.Pages); n > 0 {
		p = t.Pages[n-1]
	}
	if p == nil || len(p.Samples) == maxOnPage {
		next := &samplePage{Task: t, Number: len(t.Pages) + 1, Previous: p}
		next.Path = s.names.of(fmt.Sprintf("samples %s %d", t.Name, next.Number)) + ".html"
		if p != nil {
			p.Next = next
		}
		t.Pages = append(t.Pages, next)
		p = next
	}
	d.Anchor = "d" + strconv.Itoa(d.ID)
	d.Link = p.Path + "#" + d.Anchor
	p.Samples = append(p.Samples, d)
	t.Shown++
}

// document returns the parts of a sample that all columns share.
func (s *site) document(one suite.Sample) *sample {
	d := &sample{ID: one.ID}
	if d.Prompt = promptOf(one); d.Prompt != "" {
		ask := plain(one.Arguments[0][0])
		if at := strings.LastIndex(ask, "\n\n"); at >= 0 && strings.TrimSpace(ask[at:]) != "" {
			ask = ask[at:] // after the examples
		}
		d.Ask = tail(ask)
	}
	gold := -1
	var target any
	if json.Unmarshal(one.Target, &target) == nil {
		d.Target = text(plain(target))
		if n, ok := target.(float64); ok {
			gold = int(n)
		}
	}
	if choices(one) {
		for i, args := range one.Arguments[:min(len(one.Arguments), maxOptions)] {
			choice := strings.TrimPrefix(plain(args[1]), " ")
			d.Options = append(d.Options, option{Text: text(choice), Gold: i == gold || gold < 0 && choice == plain(target)})
			if i == gold {
				d.Target = text(choice)
			}
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(one.Doc, &fields) == nil {
		for name, raw := range fields {
			var v any
			if json.Unmarshal(raw, &v) == nil {
				d.Fields = append(d.Fields, field{line(name), text(plain(v))})
			}
		}
		slices.SortFunc(d.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	}
	return d
}

// promptOf returns the prompt of a sample as it is shown.
func promptOf(one suite.Sample) string {
	if len(one.Arguments) == 0 || len(one.Arguments[0]) == 0 {
		return ""
	}
	return text(plain(one.Arguments[0][0]))
}

// choices reports whether a sample scores continuations of one context.
func choices(one suite.Sample) bool {
	return len(one.Arguments) > 1 && !slices.ContainsFunc(one.Arguments, func(a []any) bool {
		if len(a) != 2 {
			return true
		}
		_, isText := a[1].(string)
		return !isText
	})
}

// plain returns a JSON value as text.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "?"
	}
	return strings.TrimSpace(b.String())
}

// add adds the answer of a column.
func (d *sample) add(c *column, one suite.Sample) {
	a := answer{Column: c, Filter: line(one.Filter), Other: d.Prompt != promptOf(one)}
	if len(d.Options) > 0 && !a.Other {
		d.scores(c, one)
	} else if len(one.Answers) > 0 && len(one.Answers[0]) > 0 {
		a.Text = text(plain(one.Answers[0][0]))
		if len(one.Filtered) > 0 {
			if f := text(plain(one.Filtered[0])); f != a.Text {
				a.Filtered = f
			}
		}
	}
	for _, one := range one.Calls[:min(len(one.Calls), maxCalls)] {
		a.Calls = append(a.Calls, call{line(one.Name), text(string(one.Arguments)), text(one.Answer)})
	}
	var shown []string
	for _, name := range one.Names {
		values := one.Metrics[name]
		var parts []string
		for _, x := range values {
			parts = append(parts, strconv.FormatFloat(x, 'g', 4, 64))
		}
		shown = append(shown, line(name)+" "+strings.Join(parts, ", "))
		if _, _, yes, ok := suite.Value(name); ok && yes && a.State == "" && len(values) > 0 {
			a.State = map[bool]string{true: "right", false: "wrong"}[values[0] == 1]
		}
	}
	a.Metrics = strings.Join(shown, " · ")
	for _, other := range d.Answers {
		d.Changed = d.Changed || other.Filter == a.Filter && other.State != a.State
	}
	d.Answers = append(d.Answers, a)
}

// scores adds the log likelihoods of a column to the choices.
func (d *sample) scores(c *column, one suite.Sample) {
	if slices.Contains(d.Columns, c) {
		return // another filter
	}
	d.Columns = append(d.Columns, c)
	best, top := -1, 0.0
	for i := range d.Options {
		s := score{Shown: "?"}
		if i < len(one.Answers) && len(one.Answers[i]) > 0 {
			if pair, ok := one.Answers[i][0].([]any); ok && len(pair) > 0 {
				if x, ok := pair[0].(float64); ok {
					s.Shown = strings.Replace(strconv.FormatFloat(x, 'f', 3, 64), "-", "−", 1)
					if best < 0 || x > top {
						best, top = i, x
					}
				}
			}
		}
		d.Options[i].Scores = append(d.Options[i].Scores, s)
	}
	if best >= 0 {
		d.Options[best].Scores[len(d.Columns)-1].Picks = true
	}
}

// changes adds the changes of a document between neighboring columns.
func (t *task) changes(d *sample) {
	last := map[string]answer{}
	for _, a := range d.Answers {
		b, ok := last[a.Filter]
		last[a.Filter] = a
		if !ok || a.State == b.State || a.State == "" || b.State == "" {
			continue
		}
		if len(t.Changes) == maxChanges {
			t.More++
			continue
		}
		t.Changes = append(t.Changes, change{d, b.Column, a.Column, a.State == "right"})
	}
}
