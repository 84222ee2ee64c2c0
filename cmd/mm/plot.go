package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/plot"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
)

// plotRun draws a run's loss curves over tokens, with the n-gram baselines of
// the same data, into an SVG file.
func plotRun(metrics, file string, corpus *train.Corpus, vocab int) error {
	f, err := os.Open(metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	training, held, err := train.ReadCurves(f)
	if err != nil {
		return err
	}
	if len(training) == 0 {
		return errors.New("the run has no steps to draw")
	}
	c := plot.Chart{Title: "Loss", X: "tokens", Y: "nats a token"}
	c.Lines = append(c.Lines, curve("training", "#1f77b4", training))
	if len(held) > 0 {
		c.Lines = append(c.Lines, curve("held out", "#d62728", held))
	}
	if corpus != nil && corpus.Held != nil {
		base, err := baselines(corpus, vocab, float64(training[len(training)-1].Tokens))
		if err != nil {
			return err
		}
		c.Lines = append(c.Lines, base...)
	}
	return fsx.Replace(file, 0o644, func(w io.Writer) error { return plot.SVG(w, c) })
}

func curve(name, color string, points []train.Point) plot.Line {
	l := plot.Line{Name: name, Color: color}
	for _, p := range points {
		l.Points = append(l.Points, plot.Point{X: float64(p.Tokens), Y: p.Loss})
	}
	return l
}

// baselines are what counting alone reaches on the held-out text.
func baselines(corpus *train.Corpus, vocab int, end float64) ([]plot.Line, error) {
	base, err := dataset.NGrams(corpus.Train, corpus.Held, vocab)
	if err != nil {
		return nil, err
	}
	var lines []plot.Line
	for _, b := range []struct {
		name string
		loss float64
	}{{"unigram", base.Unigram}, {"bigram", base.Bigram}, {"trigram", base.Trigram}} {
		lines = append(lines, plot.Line{Name: fmt.Sprintf("%s %.2f", b.name, b.loss), Color: "#999", Dashed: true,
			Points: []plot.Point{{X: 0, Y: b.loss}, {X: end, Y: b.loss}}})
	}
	return lines, nil
}
