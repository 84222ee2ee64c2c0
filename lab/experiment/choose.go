package experiment

import (
	"context"
	"fmt"

	"mm-abi.org/mm/lab/records"
)

// Choose decides by the history in a file and appends the decision to it.
func Choose(ctx context.Context, file, op string, eligible []string, policy Policy) (d Decision, err error) {
	err = records.Update(ctx, file, func(rows []HistoryRow) ([]HistoryRow, error) {
		var s Scheduler
		for i, r := range rows {
			if err := s.Add(r); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
		}
		d, err = s.Decide(op, eligible, policy)
		return []HistoryRow{{Decided: &d}}, err
	})
	return d, err
}
