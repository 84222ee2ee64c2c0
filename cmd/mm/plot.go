package main

import (
	"encoding/json"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/train"
)

// point is one place of a loss curve.
type point struct{ tokens, loss float64 }

// trainEvent is what the plot needs of a line of metrics.
type trainEvent struct {
	Event  string  `json:"event"`
	Step   int     `json:"step"`
	Tokens int     `json:"tokens"`
	Loss   float64 `json:"loss"`
}

func parseEvent(line []byte) (trainEvent, error) {
	var e trainEvent
	return e, json.Unmarshal(line, &e)
}

// plotRun draws a run's loss curves over tokens, with the n-gram baselines of
// the same data, into an SVG or PNG file.
func plotRun(metrics, file string, corpus *train.Corpus, vocab int) error {
	training, held, err := curve(metrics)
	if err != nil {
		return err
	}
	pl := plot.New()
	pl.Title.Text = "Loss"
	pl.X.Label.Text, pl.Y.Label.Text = "tokens", "nats a token"
	pl.Legend.Top = true
	blue, red, grey := color.RGBA{0x1f, 0x77, 0xb4, 0xff}, color.RGBA{0xd6, 0x27, 0x28, 0xff}, color.Gray{0x99}
	if err := addCurve(pl, "training", training, blue, nil); err != nil {
		return err
	}
	if len(held) > 0 {
		if err := addCurve(pl, "held out", held, red, nil); err != nil {
			return err
		}
	}
	if corpus.Held != nil {
		if err := addBaselines(pl, corpus, vocab, training[len(training)-1].tokens, grey); err != nil {
			return err
		}
	}
	pl.Y.Min = 0
	return pl.Save(18*vg.Centimeter, 11*vg.Centimeter, file)
}

// addBaselines draws what counting alone reaches on the held-out text.
func addBaselines(pl *plot.Plot, corpus *train.Corpus, vocab int, end float64, c color.Color) error {
	base, err := dataset.NGrams(corpus.Train, corpus.Held, vocab)
	if err != nil {
		return err
	}
	for _, b := range []struct {
		name string
		loss float64
	}{{"unigram", base.Unigram}, {"bigram", base.Bigram}, {"trigram", base.Trigram}} {
		flat := []point{{0, b.loss}, {end, b.loss}}
		if err := addCurve(pl, fmt.Sprintf("%s %.2f", b.name, b.loss), flat, c, []vg.Length{vg.Points(4), vg.Points(3)}); err != nil {
			return err
		}
	}
	return nil
}

func addCurve(pl *plot.Plot, name string, points []point, c color.Color, dashes []vg.Length) error {
	xys := make(plotter.XYs, len(points))
	for i, p := range points {
		xys[i].X, xys[i].Y = p.tokens, p.loss
	}
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.Color, line.Dashes = c, dashes
	pl.Add(line)
	pl.Legend.Add(name, line)
	return nil
}
