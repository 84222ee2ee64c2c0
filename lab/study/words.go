package study

import (
	"fmt"
	"strings"
)

// words answers the question in sentences: which, why, how sure.
func words(s Study, at *state, a Answer) []string {
	out := []string{which(s, at, a)}
	if a.Winner != nil {
		out = append(out, why(s, a), sure(s, a))
	}
	out = append(out, walls(a)...)
	for _, c := range a.Claims {
		text := fmt.Sprintf("Claim %s (%s): %s", c.Name, c.Claim, c.Verdict)
		if d := c.Comparison; d != nil {
			text += fmt.Sprintf(": %s of %s less %s is %s", strings.ReplaceAll(d.Metric, "_", " "), d.Arm, d.Against, d.interval())
		}
		out = append(out, text+"; "+c.Why+".")
	}
	if n := s.comparisons(at); n > 1 {
		out = append(out, fmt.Sprintf("The intervals hold together for all %d comparisons with 95 %% (Bonferroni: %.4g %% each).", n, 100*(1-0.05/float64(n))))
	}
	if l := a.Law; l != nil {
		out = append(out, l.words())
	}
	if a.Exhausted != "" {
		out = append(out, "The budget ended before all trials ("+a.Exhausted+").")
	}
	return out
}

func which(s Study, at *state, a Answer) string {
	switch {
	case at.winner == "":
		return "Inconclusive: no arm was trained to the end with every seed."
	case at.winner == BaseArm:
		return "No arm has a lower loss than the base on the documents of the choice."
	case a.Verdict == Supported:
		return fmt.Sprintf("%s wins: its loss on documents that no run saw is %.4f, that of the base %.4f.", at.winner, a.Winner.Values[0], a.Winner.Values[1])
	case a.Verdict == Refuted:
		return fmt.Sprintf("Refuted: %s was chosen, but its loss on documents that no run saw is above that of the base.", at.winner)
	}
	return fmt.Sprintf("Inconclusive: %s was chosen, but its difference from the base on documents that no run saw is within its interval.", at.winner)
}

// why lists the changes of the winner.
func why(s Study, a Answer) string {
	var arm Arm
	for _, x := range s.Arms {
		if x.Name == a.Winner.Arm {
			arm = x
		}
	}
	return "It differs from the base only in " + strings.Join(planned(arm).Changes, ", ") + "; text, tokenizer, tokens of training and seeds are the same."
}

func sure(s Study, a Answer) string {
	c := a.Winner
	text := fmt.Sprintf("The difference is %s nats per token over %d documents and %d seeds.", c.interval(), c.Documents, c.Seeds)
	if c.Seeds == 1 {
		text += " With one seed the interval covers the documents only, not the seeds."
	}
	return text
}

// interval formats the difference with its interval.
func (c Comparison) interval() string {
	return fmt.Sprintf("%+.4f (%.4g %% interval %+.4f to %+.4f)", c.Difference, 100*c.Level, c.Interval.Low, c.Interval.High)
}

// walls compares the arms with the models of token counts.
func walls(a Answer) []string {
	var out []string
	for _, b := range a.Counts {
		var below []string
		for _, f := range a.Arms {
			if f.Judged != nil && *f.Judged < *b.Judged {
				below = append(below, f.Arm)
			}
		}
		text := "none"
		if len(below) > 0 {
			text = strings.Join(below, ", ")
		}
		out = append(out, fmt.Sprintf("Below the %s (%.4f): %s of the judged arms.", b.Arm, *b.Judged, text))
	}
	return out
}

func (l *Law) words() string {
	if l.Intervals == nil {
		return "Scaling law: not identified: " + strings.Join(l.Why, "; ") + "."
	}
	text := fmt.Sprintf("Scaling law: L = %.3f + %.3f/N^%.2f + %.3f/D^%.2f in units of the smallest cell (alpha %.2f to %.2f, beta %.2f to %.2f), residual %.4f",
		l.E, l.A, l.Alpha, l.B, l.Beta, l.Intervals["alpha"].Low, l.Intervals["alpha"].High, l.Intervals["beta"].Low, l.Intervals["beta"].High, l.ResidualRoot)
	if !l.Identified {
		text += "; not identified: " + strings.Join(l.Why, "; ")
	}
	return text + "."
}
