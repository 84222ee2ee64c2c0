package card

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Demand is a limit on a figure of a suite's task.
type Demand struct {
	Suite   string   `json:"suite"`            // name of the task
	Digest  string   `json:"digest,omitempty"` // of its configuration. Empty: any
	Metric  string   `json:"metric"`
	Filter  string   `json:"filter,omitempty"` // Empty: none
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
	N       int      `json:"n,omitempty"`    // questions at least
	Sure    bool     `json:"sure,omitempty"` // the whole interval keeps the limit
}

// ErrMissed marks a figure that misses its limit, as opposed to an absent one.
var ErrMissed = errors.New("limit missed")

// String returns the demand as text.
func (d Demand) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", d.Suite, d.name())
	if d.AtLeast != nil {
		fmt.Fprintf(&b, " ≥ %s", Number(*d.AtLeast))
	}
	if d.AtMost != nil {
		fmt.Fprintf(&b, " ≤ %s", Number(*d.AtMost))
	}
	if d.Sure {
		b.WriteString(" surely")
	}
	if d.N > 0 {
		fmt.Fprintf(&b, ", n ≥ %d", d.N)
	}
	return b.String()
}

func (d Demand) name() string {
	if d.Filter == "" {
		return d.Metric + ",none"
	}
	return d.Metric + "," + d.Filter
}

// Number returns a number with all its digits.
func Number(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if digits, exponent, ok := strings.Cut(s, "e"); ok && !strings.Contains(digits, ".") {
		return digits + ".0e" + exponent // without the point, YAML 1.1 has a text
	}
	return s
}

// Judge reports why a test result does not meet the demand; errors.Is finds [ErrMissed]
// if only the value of the figure is the reason. One figure that meets it suffices.
func (d Demand) Judge(predicate []byte) error {
	list, missed, err := parse(predicate)
	if err != nil {
		return err
	}
	if missed {
		return fmt.Errorf("%w: its signer states that it failed", ErrMissed)
	}
	var faults []error
	for _, e := range list {
		for _, t := range e.Tasks {
			if t.Name != d.Suite {
				continue
			}
			for _, f := range t.Figures {
				if f.Name() != d.name() {
					continue
				}
				fault := d.figure(t, f)
				if fault == nil {
					return nil
				}
				faults = append(faults, fault)
			}
		}
	}
	if faults == nil {
		return fmt.Errorf("no figure %s of %s", d.name(), d.Suite)
	}
	return errors.Join(faults...)
}

// figure reports why a figure does not meet the demand.
func (d Demand) figure(t Task, f Figure) error {
	low, high := f.Value, f.Value
	if d.Sure {
		low, high = f.Low, f.High
	}
	got := fmt.Sprintf("%s %s: got %.4f [%.4f, %.4f], n %d", t.Name, f.Name(), f.Value, f.Low, f.High, f.N)
	switch {
	case d.Digest != "" && t.Suite != d.Digest:
		return fmt.Errorf("%s %s: got the suite %s, want %s", t.Name, f.Name(), t.Suite, d.Digest)
	case f.N < d.N:
		return fmt.Errorf("%s, want n of at least %d", got, d.N)
	case d.AtLeast != nil && low < *d.AtLeast:
		return fmt.Errorf("%w: %s, want %s", ErrMissed, got, d)
	case d.AtMost != nil && high > *d.AtMost:
		return fmt.Errorf("%w: %s, want %s", ErrMissed, got, d)
	}
	return nil
}
