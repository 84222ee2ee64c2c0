package improve

import (
	"fmt"
	"io"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/plot"
)

// String returns a line on the round.
func (r Round) String() string {
	low, high := r.Start.Interval()
	line := fmt.Sprintf("round %d: held out %d of %d right, %+.1f %% since round 0 (95 %%: %+.1f to %+.1f)",
		r.Round, r.Start.After, r.Start.N, 100*r.Start.Difference(), 100*low, 100*high)
	if len(r.Choice) > 0 {
		line += fmt.Sprintf("; choice %d of %d", r.right(), len(r.Choice))
	}
	line += fmt.Sprintf("; learned %d", r.Learned)
	if r.Sealed != nil && r.Sampled > 0 {
		line += fmt.Sprintf("; %d of %d calls of the teacher right, %d held out", r.Right, r.Sampled, r.Teacher)
	} else if r.Sampled > 0 {
		line += fmt.Sprintf("; %d of %d questions right, %d more with a hint, %d skipped", r.Right, r.Sampled, r.Hinted, r.Skipped)
	}
	return line
}

// String returns the answer of the run in words.
func (s Summary) String() string {
	if s.Spec.Method.tunes() {
		return s.tuned()
	}
	interval := fmt.Sprintf("%+.1f %% (95 %%: %+.1f to %+.1f)", 100*s.Change.Difference(), 100*s.Low, 100*s.High)
	switch {
	case s.Helps:
		return fmt.Sprintf("%s helps: round %d changes the held-out answers of round 0 by %s", s.Spec.Method, s.Best, interval)
	case s.Best == 0:
		return fmt.Sprintf("%s does not help: no round is better than round 0 in the choice; end: %s", s.Spec.Method, s.Reason)
	}
	return fmt.Sprintf("%s does not help beyond chance: round %d changes the held-out answers of round 0 by %s", s.Spec.Method, s.Best, interval)
}

// tuned returns the answer of a run that tunes.
func (s Summary) tuned() string {
	last := s.Rounds[len(s.Rounds)-1]
	before, after := s.Rounds[0].Start, last.Start
	share := func(right int) string {
		score := train.Score{Right: right, N: after.N}
		low, high := score.Interval()
		return fmt.Sprintf("%.1f %% (95 %%: %.1f to %.1f)", 100*score.Accuracy(), 100*low, 100*high)
	}
	verdict := "does not help beyond chance"
	if s.Helps {
		verdict = "helps"
	}
	text := fmt.Sprintf("%s %s: %s of %d held-out questions right before, %s after; change %+.1f points (95 %%: %+.1f to %+.1f)", s.Spec.Method, verdict,
		share(before.After), after.N, share(after.After), 100*s.Change.Difference(), 100*s.Low, 100*s.High)
	if d := last.Sealed; d != nil {
		text += fmt.Sprintf("; %s: sha256 %s before = after, %d tensors", d.Part, d.Before, d.Tensors)
	}
	return text
}

// Figures are the numbers of a summary.
type Figures struct {
	Best   int     `json:"best"` // the round that the choice names
	Helps  bool    `json:"helps"`
	Reason string  `json:"reason"` // of the end
	N      int     `json:"n"`      // held-out questions
	Right  []int   `json:"right"`  // of them, by round
	Change float64 `json:"change"` // from round 0 to the best round, of 1
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Figures returns the numbers of the summary.
func (s Summary) Figures() Figures {
	f := Figures{Best: s.Best, Helps: s.Helps, Reason: s.Reason, N: s.Change.N, Change: s.Change.Difference(), Low: s.Low, High: s.High}
	for _, r := range s.Rounds {
		f.Right = append(f.Right, r.Start.After)
	}
	return f
}

// Model returns the path of the best round's model in the folder of the run.
func (s Summary) Model() string { return filepath.Join(folderName(s.Best), modelFile) }

// Chart returns the share of right answers by round, in percent.
func (s Summary) Chart() plot.Chart {
	held := plot.Line{Name: "held out", Color: "#1f77b4"}
	choice := plot.Line{Name: "choice", Color: "#888", Dashed: true}
	for _, r := range s.Rounds {
		x := float64(r.Round)
		held.Points = append(held.Points, plot.Point{X: x, Y: 100 * r.Accuracy()})
		choice.Points = append(choice.Points, plot.Point{X: x, Y: 100 * float64(r.right()) / float64(max(len(r.Choice), 1))})
	}
	chart := plot.Chart{Title: s.Spec.Name, X: "round", Y: "right, %", Lines: []plot.Line{held}}
	if !s.Spec.Method.tunes() {
		chart.Lines = append(chart.Lines, choice)
	}
	return chart
}

// Plot draws the chart to a file.
func (s Summary) Plot(file string) error {
	return fsx.Replace(file, 0o644, func(w io.Writer) error { return plot.SVG(w, s.Chart()) })
}
