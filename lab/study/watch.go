package study

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/chain"
)

// Watch calls show with the state of the run in dir whenever it has changed, at most once
// in a period, until the run is complete or ctx is done. A run that does not exist yet is
// waited for.
func Watch(ctx context.Context, dir string, v chain.Verifier, period time.Duration, show func(Status) error) error {
	before := ""
	for {
		view, err := Open(dir, v)
		if err != nil && !absent(err) {
			return err
		}
		if err == nil {
			s := view.Status()
			if now := digestOf(s); now != before {
				if err := show(s); err != nil {
					return err
				}
				before = now
			}
			if s.State == "complete" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(period):
		}
	}
}

// Line formats the state in one line.
func (s Status) Line() string {
	text := fmt.Sprintf("%s: %s, %d of at most %d trials, %d tokens, %d rows", s.Run, s.State, s.Trials, s.Planned, s.Tokens, s.Rows)
	if n := s.Now; n != nil && n.Arm != "" {
		text += fmt.Sprintf("; %s %s", n.Event, n.Arm)
		if n.Rung > 0 {
			text += fmt.Sprintf(" seed %d: %d of %d tokens", n.Seed, n.Tokens, n.Rung)
		}
		if n.Loss > 0 {
			text += fmt.Sprintf(", loss %.4f", n.Loss)
		}
	}
	if s.Exhausted != "" {
		text += "; budget: " + s.Exhausted
	}
	return diag.Printable(text)
}

// Write writes the line of the state and a table of the arms.
func (s Status) Write(w io.Writer) error {
	if _, err := fmt.Fprintln(w, s.Line()); err != nil {
		return err
	}
	return writeFigures(w, s.Arms)
}

// Write writes the answer in words, and a table of the arms.
func (a Answer) Write(w io.Writer) error {
	for _, text := range a.Words {
		if _, err := fmt.Fprintln(w, diag.Printable(text)); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return writeFigures(w, append(a.Arms[:len(a.Arms):len(a.Arms)], a.Counts...))
}

func writeFigures(w io.Writer, all []Figure) error {
	rows := [][]string{{"ARM", "PARAMETERS", "TOKENS", "CHOOSE", "JUDGE", "STATE"}}
	for _, f := range all {
		state := ""
		switch {
		case f.Same != "":
			state = "same as " + f.Same
		case f.Diverged != "":
			state = "diverged: " + f.Diverged
		case f.Dropped > 0:
			state = fmt.Sprintf("dropped at %d tokens", f.Dropped)
		}
		rows = append(rows, []string{f.Arm, some(f.Parameters), some(f.Tokens), decimal(f.Chosen), decimal(f.Judged), state})
	}
	return table(w, rows)
}

// Write writes the claim with its verdict, and a table of the rows behind it.
func (e Explanation) Write(w io.Writer) error {
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s", e.Name, e.Hypothesis.Claim)))
	fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s", e.Verdict, e.Why)))
	if c := e.Comparison; c != nil {
		fmt.Fprintln(w, diag.Printable(fmt.Sprintf("%s: %s %.4f, %s %.4f, difference %s, %d documents, %d seeds, %.1f degrees of freedom",
			c.Metric, c.Arm, c.Values[0], c.Against, c.Values[1], c.interval(), c.Documents, c.Seeds, c.Freedom)))
	}
	rows := [][]string{{"ROW", "EVENT", "ARM", "SEED", "TOKENS", "LOSS", "DOCUMENTS", "HASH", "SPEC", "WEIGHTS"}}
	for _, r := range e.Rows {
		loss := fmt.Sprintf("%.4f", r.Loss)
		if r.Diverged != "" {
			loss = "diverged"
		}
		rows = append(rows, []string{fmt.Sprint(r.Row), r.Event, r.Arm, fmt.Sprint(r.Seed), some(r.Rung), loss, some(r.Documents), head(r.Hash), head(r.Spec), head(r.Weights)})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "chain verified, head %s\n", e.Head)
	return err
}

func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		for i := range r {
			r[i] = diag.Printable(r[i])
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

func some(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.4f", *v)
}

func head(digest string) string { return digest[:min(len(digest), 12)] }
