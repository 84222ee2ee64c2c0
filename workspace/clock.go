package workspace

import (
	"time"

	"mm-abi.org/mm/internal/diag"
)

// Clock returns the time that chat templates read: the given date, or
// SOURCE_DATE_EPOCH, or the local time, without a zone as in transformers. If
// fixed, the default is a constant day instead: golden prompts and evaluations
// have the same results every day.
func Clock(date string, fixed bool) (func() time.Time, error) {
	constant := func(t time.Time) (func() time.Time, error) { return func() time.Time { return t }, nil }
	if date != "" {
		for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05"} {
			if t, err := time.Parse(layout, date); err == nil {
				return constant(t)
			}
		}
		return nil, diag.Usagef("--date %q: want 2026-01-31 or 2026-01-31T08:00:00", date)
	}
	epoch, err := SourceDate()
	switch {
	case err != nil:
		return nil, err
	case epoch != nil:
		return constant(*epoch)
	case fixed:
		return constant(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	return time.Now, nil
}
