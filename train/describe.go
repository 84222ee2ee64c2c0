package train

import (
	"fmt"
	"strings"
)

// Describe describes an event in lines of text; a [Saved] has none.
func Describe(e Event) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch e := e.(type) {
	case Started:
		add("%d parameters, %d trainable, %d tensors frozen; %d training tokens, %d held out; %d threads", e.Parameters, e.Trainable, e.Frozen, e.TrainTokens, e.HeldTokens, e.Threads)
		for _, l := range e.Lineage {
			if IsAddress(l.Name) {
				add("data set %s, %s", l.Name, l.Digest)
				continue
			}
			add("data set %s, license %s, lineage %s", l.Name, l.License, l.Digest)
		}
		if e.Step > 0 {
			add("resuming from step %d", e.Step)
		}
	case Step:
		add("step %6d  tokens %9d  mean loss of %2d steps %.4f  lr %.2e  norm %.3f  %6.0f tok/s", e.Step, e.Tokens, e.Steps, e.Loss, e.Rate, e.GradNorm, e.Speed)
	case Evaluated:
		best := ""
		if e.Best {
			best = "  best so far"
		}
		result := fmt.Sprintf(", %.4f bits a byte,", e.BitsPerByte)
		if len(e.Scores) > 0 {
			result = "; " + scoreList(e.Scores) + ";"
		}
		add("held out at step %d: %.4f nats%s after %.1f s%s", e.Step, e.Loss, result, e.Seconds, best)
	case Finished:
		add("stopped by %s: step %d, %d tokens, %.1f s, %.1f CPU seconds", e.Reason, e.Step, e.Tokens, e.Seconds, e.CPU)
		for _, s := range e.Sealed {
			switch {
			case s.Before != s.After:
				add("%s: sha256 %s before, %s after: changed", s.Part, s.Before, s.After)
			case s.Trained > 0:
				add("%s: sha256 %s before = after, %d tensors; %d others trained", s.Part, s.Before, s.Tensors, s.Trained)
			default:
				add("%s: sha256 %s before = after, %d tensors", s.Part, s.Before, s.Tensors)
			}
		}
	}
	return lines
}

// scoreList formats scores in one line.
func scoreList(scores []Score) string {
	var parts []string
	for _, s := range scores {
		parts = append(parts, fmt.Sprintf("%s %.0f%%", s.Kind, 100*s.Accuracy()))
	}
	return strings.Join(parts, ", ")
}
