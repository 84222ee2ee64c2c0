// Package chart is the tool chartqa: it reads the table of a chart and answers
// by it.
//
// A CSV or JSON table is read as it stands (table.go). A picture is read back
// (picture.go): the axes, the feet and tops of the bars by their ink, the scale by
// the digits beside the ticks, which have to be an even row of numbers, and the
// labels letter by letter (package glyph). What the pixels do not tell is said,
// and no number is made up.
package chart

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"mm-abi.org/mm/skills/glyph"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// maxOps is how many operations one call may ask for.
const maxOps = 16

// New makes the function of the skill chartqa: {"image_ref": "#NAME", "ops":
// [text…]} to {"result": value}. The asset is a PNG or JPEG of a bar chart, or a
// table in CSV or JSON. Of one op the result is its own, of several an object of
// them:
//
//	extract_table   [[label, value], …]
//	max, min        the label of the highest, the lowest value
//	sum, mean       of the values
//	count           how many there are
//	value LABEL     that one's
//	ratio [A B]     A's value by B's; without names the highest by the lowest
//	calc_slope      of the straight line through the values in their order
//
// Letters are what it compares with; they are asked for at the first picture.
func New(letters func() (*glyph.Set, error)) builtin.Func {
	return func(call *builtin.Call) (any, error) {
		var args struct {
			Image string   `json:"image_ref"`
			Ops   []string `json:"ops"`
		}
		if err := json.Unmarshal(call.Args, &args); err != nil {
			return nil, sandbox.Faultf(sandbox.Args, "reading the arguments: %v", err)
		}
		if len(args.Ops) == 0 || len(args.Ops) > maxOps {
			return nil, wrong("%d ops; 1 to %d are answered", len(args.Ops), maxOps)
		}
		data, err := builtin.ReadImage(call, args.Image)
		if err != nil {
			return nil, err
		}
		var t Table
		if builtin.IsImage(data) {
			t, err = readPicture(call, data, letters)
		} else {
			t, err = readTable(call, data)
		}
		if err != nil {
			return nil, err
		}
		out := map[string]any{}
		for _, op := range args.Ops {
			if out[op], err = t.Answer(op); err != nil {
				return nil, err
			}
		}
		if len(args.Ops) == 1 {
			return map[string]any{"result": out[args.Ops[0]]}, nil
		}
		return map[string]any{"result": out}, nil
	}
}

func readPicture(call *builtin.Call, data []byte, letters func() (*glyph.Set, error)) (Table, error) {
	r, err := builtin.DecodeImage(call, data)
	if err != nil {
		return Table{}, err
	}
	set, err := letters()
	if err != nil {
		return Table{}, err
	}
	return Read(call, set, r.Pix, r.W, r.H)
}

// Answer does one op of [New] on a table.
func (t Table) Answer(op string) (any, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(op), " ")
	rest = strings.TrimSpace(rest)
	if rest != "" && word != "value" && word != "ratio" {
		return nil, wrong("%s takes nothing behind it: %q", word, cut(rest))
	}
	switch word {
	case "extract_table":
		rows := [][]any{}
		for i, l := range t.Labels {
			rows = append(rows, []any{l, number(t.Values[i])})
		}
		return rows, nil
	case "count":
		return len(t.Values), nil
	case "max", "min":
		return t.Labels[t.extreme(word == "max")], nil
	case "sum":
		return finite(t.sum())
	case "mean":
		return finite(t.sum() / float64(len(t.Values)))
	case "value":
		i, err := t.find(rest)
		if err != nil {
			return nil, err
		}
		return number(t.Values[i]), nil
	case "ratio":
		return t.ratio(rest)
	case "calc_slope":
		return t.slope()
	}
	return nil, wrong("there is no op %q: extract_table, calc_slope, max, min, sum, mean, ratio, count, value LABEL", cut(op))
}

// number rounds to what double precision vouches for.
func number(v float64) json.Number {
	s := strconv.FormatFloat(v, 'g', 12, 64)
	f, _ := strconv.ParseFloat(s, 64) // s is one
	if math.Abs(f) < 1e15 {
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// finite is a number that double precision holds.
func finite(v float64) (any, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, wrong("the result is too large a number")
	}
	return number(v), nil
}

func (t Table) extreme(most bool) int {
	best := 0
	for i, v := range t.Values {
		if most && v > t.Values[best] || !most && v < t.Values[best] {
			best = i
		}
	}
	return best
}

func (t Table) sum() float64 {
	total := 0.0
	for _, v := range t.Values {
		total += v
	}
	return total
}

// find is the row of a label, whatever its case.
func (t Table) find(label string) (int, error) {
	at := -1
	for i, l := range t.Labels {
		if strings.EqualFold(strings.TrimSpace(l), label) {
			if at >= 0 {
				return 0, wrong("there are two of %q", cut(label))
			}
			at = i
		}
	}
	if at < 0 {
		return 0, wrong("there is no %q; there is %s", cut(label), cut(strings.Join(t.Labels, ", ")))
	}
	return at, nil
}

func (t Table) ratio(names string) (any, error) {
	a, b := t.extreme(true), t.extreme(false)
	if names != "" {
		words := strings.Fields(strings.ReplaceAll(names, ",", " "))
		if len(words) != 2 {
			return nil, wrong("ratio of %q: two labels are wanted, or none", cut(names))
		}
		var err error
		if a, err = t.find(words[0]); err != nil {
			return nil, err
		}
		if b, err = t.find(words[1]); err != nil {
			return nil, err
		}
	}
	if t.Values[b] == 0 {
		return nil, wrong("the value of %q is 0: there is no ratio by it", cut(t.Labels[b]))
	}
	return finite(t.Values[a] / t.Values[b])
}

// slope is that of the line of least squares through the values, a step a row;
// where the labels are numbers that differ, they are its x.
func (t Table) slope() (any, error) {
	n := len(t.Values)
	if n < 2 {
		return nil, wrong("a slope wants two values and more; there is one")
	}
	xs := make([]float64, n)
	given := true
	for i, l := range t.Labels {
		v, ok := numberOf(l)
		xs[i], given = v, given && ok
	}
	if !given {
		for i := range xs {
			xs[i] = float64(i)
		}
	}
	mx, my := 0.0, t.sum()/float64(n)
	for _, x := range xs {
		mx += x / float64(n)
	}
	top, under := 0.0, 0.0
	for i, x := range xs {
		top += (x - mx) * (t.Values[i] - my)
		under += (x - mx) * (x - mx)
	}
	if under == 0 {
		return nil, wrong("the rows have one place: there is no slope")
	}
	return finite(top / under)
}
