package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
)

func TestFunctionLimits(t *testing.T) {
	for _, tc := range []struct {
		function, key string
		value         float64
		ok            bool
	}{
		{"product", "size", experiment.MaxSize, true}, {"product", "size", experiment.MaxSize + 1, false},
		{"product", "size", 1, true}, {"product", "size", 0, false}, {"product", "size", 1.5, false},
		{"sleep", "seconds", experiment.MaxSeconds, true}, {"sleep", "seconds", experiment.MaxSeconds + 1, false},
		{"sleep", "seconds", 0, true}, {"sleep", "seconds", -1, false},
	} {
		if _, err := experiment.Functions()[tc.function](t.Context(), map[string]float64{tc.key: tc.value}); (err == nil) != tc.ok {
			t.Errorf("%s %v: %v", tc.function, tc.value, err)
		}
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", experiment.MaxTail-1)
	for _, tc := range [][3]string{
		{"a", long, "a" + long}, {"ab", long, "b" + long}, {"", "ab" + long, "b" + long}, {"a", "bc" + long, "c" + long},
	} {
		if got := experiment.TailOf(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%d and %d bytes: got %d bytes, %.3s…", len(tc[0]), len(tc[1]), len(got), got)
		}
	}
}

// failing is an executor whose steps fail with an error.
type failing struct{ err error }

func (f failing) Open(context.Context, experiment.Step, int) (experiment.Work, error) {
	return nil, f.err
}

// An error of MaxError bytes is recorded in full, a longer one is cut.
func TestMaxError(t *testing.T) {
	for _, n := range []int{experiment.MaxError, experiment.MaxError + 1} {
		var recorded string
		_, err := simulate(t, strings.Replace(night, "duration: 6h", "iterations: 1", 1), t.TempDir(), newKey(t), func(o *experiment.Options) {
			o.Executor = failing{errors.New(strings.Repeat("x", n))}
			o.Each = func(r chain.Row) {
				var p experiment.Payload
				if json.Unmarshal(r.Payload, &p) == nil && p.Error != "" {
					recorded = p.Error
				}
			}
		})
		if err != nil || len(recorded) != experiment.MaxError {
			t.Errorf("%d bytes: recorded %d, %v", n, len(recorded), err)
		}
	}
}
