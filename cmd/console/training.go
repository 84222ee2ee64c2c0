package console

import (
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"mm-abi.org/mm/train"
)

// Training shows a run of training: a progress bar on a terminal, and log lines.
type Training struct {
	stop  train.Stop
	quiet bool
	bars  *mpb.Progress
	bar   *mpb.Bar
	w     io.Writer

	End  train.Finished
	Eval train.Evaluated
}

// NewTraining returns the view of a run until stop: a bar at screen, and lines at w unless
// quiet.
func NewTraining(screen Screen, w io.Writer, quiet bool, stop train.Stop) *Training {
	v := &Training{stop: stop, w: w, quiet: quiet}
	if screen.File == nil {
		return v
	}
	total := int64(stop.Steps)
	if total == 0 {
		total = int64(stop.Tokens)
	}
	if total == 0 {
		total = int64(stop.Seconds)
	}
	v.bars = mpb.New(mpb.WithOutput(screen.File), mpb.WithWidth(40))
	v.bar = v.bars.AddBar(total, mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
	v.w = v.bars
	return v
}

// Observe implements train.Observer.
func (v *Training) Observe(e train.Event) error {
	if !v.quiet {
		for _, line := range train.Describe(e) {
			fmt.Fprintln(v.w, line)
		}
	}
	switch e := e.(type) {
	case train.Step:
		v.advance(e.Step, e.Tokens, e.Seconds)
	case train.Evaluated:
		v.Eval = e
	case train.Finished:
		v.End = e
	}
	return nil
}

func (v *Training) advance(steps, tokens int, seconds float64) {
	if v.bar == nil {
		return
	}
	switch {
	case v.stop.Steps > 0:
		v.bar.SetCurrent(int64(steps))
	case v.stop.Tokens > 0:
		v.bar.SetCurrent(int64(tokens))
	default:
		v.bar.SetCurrent(int64(seconds))
	}
}

// Close ends the bar.
func (v *Training) Close() {
	if v.bars != nil {
		v.bar.Abort(false)
		v.bars.Wait()
	}
}
