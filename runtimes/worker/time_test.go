//go:build unix

package worker_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// limited returns the options of a child that is unresponsive once and still sends beats.
func limited(t *testing.T, play string) worker.Options {
	opt := options(play, filepath.Join(t.TempDir(), "mark"))
	opt.Name, opt.Call = "fake", 2*time.Second
	return opt
}

// overTime checks for a prompt error with the engine, the operation and the limit.
func overTime(t *testing.T, begin time.Time, err error, limit, what string) {
	t.Helper()
	if want := "fake took longer than " + limit + " (" + what + ")"; !errors.Is(err, runtimes.ErrTime) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	var h interface{ Hint() string }
	if !errors.As(err, &h) || !strings.Contains(h.Hint(), "--timeout") {
		t.Errorf("%v has no way out", err)
	}
}

// A function that hangs ends with the limit of its calls, or of the options, and the next call uses
// another child.
func TestFunctionOverTime(t *testing.T) {
	for limit, l := range map[string]runtimes.Limits{"2s": {}, "1s": {Time: time.Second}} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			m, err := worker.Open(t.Context(), limited(t, "deaf once"), wire.Open{Type: abi.Encoder, Limits: l})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			in := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{2}, Data: []byte{1, 2}}}
			begin := time.Now()
			_, err = m.(runtimes.Function).Run(t.Context(), in)
			overTime(t, begin, err, limit, "computing")
			if out, err := m.(runtimes.Function).Run(t.Context(), in); err != nil || !slices.Equal(out["x"].Data, []byte{1, 2}) {
				t.Errorf("the next call: %v, %v", out, err)
			}
		})
	}
}

// Loading and questions have the limit too; loading has at least the time of a start.
func TestOverTimeAtTheBeginning(t *testing.T) {
	t.Parallel()
	opt := limited(t, "deaf at first")
	opt.Start = 3 * time.Second
	begin := time.Now()
	_, err := worker.Open(t.Context(), opt, wire.Open{Type: abi.Encoder})
	overTime(t, begin, err, "3s", "opening the model")

	opt, begin = limited(t, "deaf once"), time.Now()
	var answer string
	overTime(t, begin, worker.Ask(t.Context(), opt, "compile", "what", &answer), "2s", "compile")
	if err := worker.Ask(t.Context(), opt, "compile", "what", &answer); err != nil || answer != "what" {
		t.Errorf("the next question: %q, %v", answer, err)
	}
}

// The limit of a generation applies to each token, without the time of the caller.
func TestGenerationOverTime(t *testing.T) {
	t.Parallel()
	m, err := worker.Open(t.Context(), limited(t, "deaf once"), wire.Open{Type: abi.Core, Limits: runtimes.Limits{Time: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err == nil {
		err = s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{9, 10}})
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	ids, err := say(t.Context(), s, 100)
	overTime(t, begin, err, "1s", "the next token")
	if !slices.Equal(ids, []int32{11, 12, 13}) || s.Len() != 5 {
		t.Errorf("it said %v before, %d positions", ids, s.Len())
	}
	ids = nil
	slow := func(id int32) error {
		ids = append(ids, id)
		time.Sleep(1200 * time.Millisecond)
		return nil
	}
	if _, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 2}, slow); err != nil || !slices.Equal(ids, []int32{14, 15}) {
		t.Errorf("another child goes on with %v, %v", ids, err)
	}
}
