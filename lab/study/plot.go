package study

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/plot"
)

// The charts of a run.
const (
	ArmsFile = "arms.svg"
	LawFile  = "law.svg"
)

// colors are the colors of the lines, repeated.
var colors = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf"}

// maxLines bounds the lines of a chart.
const maxLines = 12

// Plot draws the losses of the arms over the tokens and the cells of the grid into dir and
// returns the files.
func (v *View) Plot(dir string) ([]string, error) {
	a, err := v.Answer()
	if err != nil {
		return nil, err
	}
	charts := map[string]plot.Chart{ArmsFile: v.arms(a)}
	if a.Law != nil && len(a.Law.Points) > 0 {
		charts[LawFile] = a.Law.chart()
	}
	var files []string
	for _, name := range sortedKeys(charts) {
		path := filepath.Join(dir, name)
		if err := fsx.Replace(path, 0o644, func(w io.Writer) error { return plot.SVG(w, charts[name]) }); err != nil {
			return files, err
		}
		files = append(files, path)
	}
	return files, nil
}

// arms draws the loss of the arms on the documents of the choice at each rung: the base,
// and the best of the others.
func (v *View) arms(a Answer) plot.Chart {
	c := plot.Chart{Title: v.Study.Name + ": loss on the documents of the choice", X: "tokens", Y: "nats per token"}
	figures := slices.Clone(a.Arms[:len(v.Study.Arms)])
	rest := figures[1:]
	slices.SortStableFunc(rest, func(x, y Figure) int { return cmp.Compare(last(x), last(y)) })
	end := 0.0
	for _, f := range figures {
		if f.Chosen == nil || f.Same != "" || len(c.Lines) == maxLines {
			continue
		}
		line := plot.Line{Name: fmt.Sprintf("%s %.3f", f.Arm, *f.Chosen), Color: colors[len(c.Lines)%len(colors)]}
		for _, rung := range v.Study.rungs() {
			if loss, ok := v.at.mean(f.Arm, v.Study.Seeds, rung); ok {
				line.Points = append(line.Points, plot.Point{X: float64(rung), Y: loss})
				end = max(end, float64(rung))
			}
		}
		if len(line.Points) == 1 { // a point alone is invisible
			line.Points = append([]plot.Point{{X: 0, Y: line.Points[0].Y}}, line.Points...)
		}
		c.Lines = append(c.Lines, line)
	}
	for _, b := range a.Counts {
		c.Lines = append(c.Lines, plot.Line{Name: fmt.Sprintf("%s %.2f", b.Arm, *b.Judged), Color: "#999", Dashed: true,
			Points: []plot.Point{{X: 0, Y: *b.Judged}, {X: end, Y: *b.Judged}}})
	}
	return c
}

// last returns the loss of an arm to sort by; arms without one are last.
func last(f Figure) float64 {
	if f.Chosen == nil {
		return 1e9 - float64(f.Tokens)
	}
	return *f.Chosen - float64(f.Tokens) // arms that went further first
}

// chart draws the loss over the tokens by size, with the fit.
func (l *Law) chart() plot.Chart {
	c := plot.Chart{Title: "Loss on the sealed documents by size and tokens", X: "tokens", Y: "nats per token"}
	bySize := map[int][]LawPoint{}
	var sizes []int
	for _, p := range l.Points {
		if bySize[p.Parameters] == nil {
			sizes = append(sizes, p.Parameters)
		}
		bySize[p.Parameters] = append(bySize[p.Parameters], p)
	}
	slices.Sort(sizes)
	for i, n := range sizes {
		line := plot.Line{Name: fmt.Sprintf("%d parameters", n), Color: colors[i%len(colors)]}
		fit := plot.Line{Name: "fit", Color: line.Color, Dashed: true}
		for _, p := range bySize[n] {
			line.Points = append(line.Points, plot.Point{X: float64(p.Tokens), Y: p.Loss})
			fit.Points = append(fit.Points, plot.Point{X: float64(p.Tokens), Y: max(p.Loss-p.Residual, 0)})
		}
		if c.Lines = append(c.Lines, line); l.Intervals != nil {
			c.Lines = append(c.Lines, fit)
		}
	}
	return c
}
