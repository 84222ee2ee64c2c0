// Package figure reads printed figures: the tool chartqa reads the table of a
// chart and answers questions about it, the tool ocr-latex reads a line of print
// or a simple formula as LaTeX.
//
// A CSV or JSON table is parsed directly (table.go). An image of a chart is
// analyzed (picture.go): the axes, the bottoms and tops of the bars by their
// pixels, the scale by the digits next to the ticks, which must form an
// arithmetic sequence, and the labels letter by letter. What the pixels do not
// show is an error; no number is made up.
//
// In an image of print, connected ink is a component (ink.go). Components become
// items: a letter with its dot, an equals sign, a fraction with its bar
// (layout.go). Small high items are exponents of what precedes them, small low
// ones indices. The others are compared with the letters of one font after the
// other, and the font that matches best is used. Supported are letters, digits
// and + - = / ! % ? , . : but no brackets, roots, Greek letters or handwriting.
//
// [Letters] draws the characters of the training fonts (train/dataset/fonts),
// each stretched to one small grid (glyph.go). [Set.Each] compares the ink of an
// image with each of them, font by font, since a text is set in one font. The
// held-out fonts are not used: the figures in docs/SKILLS.md are measured on them.
package figure

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// maxOps limits the operations of one call.
const maxOps = 16

// Chart returns the function of the skill chartqa: {"image_ref": "#NAME", "ops":
// [text…]} to {"result": value}. The asset is a PNG or JPEG of a bar chart, or
// a table in CSV or JSON. For one op, value is its result, for several an
// object of results by op:
//
//	extract_table   [[label, value], …]
//	max, min        the label of the largest, the smallest value
//	sum, mean       of the values
//	count           number of values
//	value LABEL     the value of a label
//	ratio [A B]     A's value divided by B's; by default the largest by the smallest
//	calc_slope      of the line fitted to the values in their order
//
// Letters are compared with the image; they are loaded for the first image.
func Chart(letters func() (*Set, error)) builtin.Func {
	return func(call *builtin.Call) (any, error) {
		var args struct {
			Image string   `json:"image_ref"`
			Ops   []string `json:"ops"`
		}
		if err := json.Unmarshal(call.Args, &args); err != nil {
			return nil, sandbox.Faultf(sandbox.Args, "reading the arguments: %v", err)
		}
		if len(args.Ops) == 0 || len(args.Ops) > maxOps {
			return nil, faultf("got %d ops, want 1 to %d", len(args.Ops), maxOps)
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

func readPicture(call *builtin.Call, data []byte, letters func() (*Set, error)) (Table, error) {
	r, err := builtin.DecodeImage(call, data)
	if err != nil {
		return Table{}, err
	}
	set, err := letters()
	if err != nil {
		return Table{}, err
	}
	return ReadChart(call, set, r.Pix, r.W, r.H)
}

// Answer performs one op of [Chart] on a table.
func (t Table) Answer(op string) (any, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(op), " ")
	rest = strings.TrimSpace(rest)
	if rest != "" && word != "value" && word != "ratio" {
		return nil, faultf("unexpected argument of %s: %q", word, cut(rest))
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
	return nil, faultf("unknown op %q: want extract_table, calc_slope, max, min, sum, mean, ratio, count or value LABEL", cut(op))
}

// number formats a value with the digits that double precision guarantees.
func number(v float64) json.Number {
	s := strconv.FormatFloat(v, 'g', 12, 64)
	f, _ := strconv.ParseFloat(s, 64) // s is a number
	if math.Abs(f) < 1e15 {
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// finite returns a finite number, otherwise an error.
func finite(v float64) (any, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, faultf("result is not a finite number")
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

// find returns the row of a label, ignoring case.
func (t Table) find(label string) (int, error) {
	at := -1
	for i, l := range t.Labels {
		if strings.EqualFold(strings.TrimSpace(l), label) {
			if at >= 0 {
				return 0, faultf("label %q is ambiguous", cut(label))
			}
			at = i
		}
	}
	if at < 0 {
		return 0, faultf("unknown label %q, available: %s", cut(label), cut(strings.Join(t.Labels, ", ")))
	}
	return at, nil
}

func (t Table) ratio(names string) (any, error) {
	a, b := t.extreme(true), t.extreme(false)
	if names != "" {
		words := strings.Fields(strings.ReplaceAll(names, ",", " "))
		if len(words) != 2 {
			return nil, faultf("ratio of %q: want two labels or none", cut(names))
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
		return nil, faultf("ratio: the value of %q is 0", cut(t.Labels[b]))
	}
	return finite(t.Values[a] / t.Values[b])
}

// slope returns the slope of the least-squares line through the values. If all
// labels are numbers, they are the x values, otherwise the row numbers.
func (t Table) slope() (any, error) {
	n := len(t.Values)
	if n < 2 {
		return nil, faultf("slope: got one value, want two or more")
	}
	xs := make([]float64, n)
	numeric := true
	for i, l := range t.Labels {
		v, ok := numberOf(l)
		xs[i], numeric = v, numeric && ok
	}
	if !numeric {
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
		return nil, faultf("slope: all rows have the same label value")
	}
	return finite(top / under)
}
