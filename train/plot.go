package train

import (
	"errors"
	"fmt"
	"io"
	"os"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/plot"
)

// Plot draws the loss curves in a metrics file to an SVG file, over tokens, with
// the n-gram baselines of the corpus. If corpus is nil, baselines are omitted.
func Plot(metrics, file string, corpus *Corpus, vocab int) error {
	f, err := os.Open(metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	training, held, err := ReadCurves(f)
	if err != nil {
		return err
	}
	if len(training) == 0 {
		return errors.New("the run has no steps to plot")
	}
	c := plot.Chart{Title: "Loss", X: "tokens", Y: "nats a token", Lines: []plot.Line{curve("training", "#1f77b4", training)}}
	if len(held) > 0 {
		c.Lines = append(c.Lines, curve("held out", "#d62728", held))
	}
	if corpus != nil && corpus.Held != nil {
		base, err := dataset.NGrams(corpus.Train, corpus.Held, vocab)
		if err != nil {
			return err
		}
		end := float64(training[len(training)-1].Tokens)
		for _, b := range []struct {
			name string
			loss float64
		}{{"unigram", base.Unigram}, {"bigram", base.Bigram}, {"trigram", base.Trigram}} {
			c.Lines = append(c.Lines, plot.Line{
				Name: fmt.Sprintf("%s %.2f", b.name, b.loss), Color: "#999", Dashed: true, Points: []plot.Point{{X: 0, Y: b.loss}, {X: end, Y: b.loss}},
			})
		}
	}
	return fsx.Replace(file, 0o644, func(w io.Writer) error { return plot.SVG(w, c) })
}

func curve(name, color string, points []Point) plot.Line {
	l := plot.Line{Name: name, Color: color}
	for _, p := range points {
		l.Points = append(l.Points, plot.Point{X: float64(p.Tokens), Y: p.Loss})
	}
	return l
}
