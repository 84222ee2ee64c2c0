// Package runtimetest is the conformance suite of engines: [Language.Cases] and [Function.Cases]
// return its cases, [Run] runs them as tests. [Build] and [Engine] provide builds of functions
// with known numbers.
package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// Case is one requirement of engines.
type Case struct {
	Name string
	Run  func(ctx context.Context) error // nil: passed; [ErrAbsent]: not supported
}

// ErrAbsent reports that an engine lacks an optional ability.
var ErrAbsent = errors.New("the engine lacks the ability")

// hung is the time after which a case counts as hung, even on a busy machine.
const hung = 10 * time.Minute

// Run runs cases.
func Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), hung)
			defer cancel()
			if err := c.Run(ctx); errors.Is(err, ErrAbsent) {
				t.Skip(err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// opening: the requirements of both kinds of engines.
func opening(e runtimes.Engine, b runtimes.Bundle) []Case {
	refused := func(b runtimes.Bundle, l runtimes.Limits, what string, want error) func(context.Context) error {
		return func(ctx context.Context) error {
			m, err := e.Open(ctx, b, l)
			if err == nil {
				return errors.Join(fmt.Errorf("%s: opened", what), m.Close())
			}
			if want != nil && !errors.Is(err, want) {
				return fmt.Errorf("%s: got %v, want %v", what, err, want)
			}
			return nil
		}
	}
	bare := b
	bare.Part.Files = nil
	return []Case{
		{"it says what it is", func(ctx context.Context) error {
			info, err := e.Probe(ctx)
			if err != nil {
				return err
			}
			if e.Name() == "" || info.Version == "" || info.License == "" || len(info.Devices) == 0 || len(info.Formats) == 0 {
				return fmt.Errorf("engine %q: bad info %+v", e.Name(), info)
			}
			return nil
		}},
		{"it can what it opens", func(context.Context) error { return e.Can(b.Part) }},
		{"it cannot without files", func(context.Context) error {
			if err := e.Can(builds.Part{Name: "x", Version: "1.0.0"}); !errors.Is(err, runtimes.ErrUnavailable) {
				return fmt.Errorf("Can without files: %v", err)
			}
			return nil
		}},
		{"missing files", refused(bare, runtimes.Limits{}, "without files", runtimes.ErrUnavailable)},
		{"negative threads", refused(b, runtimes.Limits{Threads: -1}, "-1 threads", nil)},
		{"negative memory", refused(b, runtimes.Limits{Memory: -1}, "-1 bytes", nil)},
		{"a byte of memory", refused(b, runtimes.Limits{Memory: 1}, "a byte of memory", runtimes.ErrUnavailable)},
		{"another device", refused(b, runtimes.Limits{Device: "abacus:7"}, "an unknown device", runtimes.ErrUnavailable)},
		{"many threads", func(ctx context.Context) error {
			m, err := e.Open(ctx, b, runtimes.Limits{Threads: 100_000})
			if err != nil {
				return err
			}
			return m.Close()
		}},
		{"a cancelled Open", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			m, err := e.Open(ctx, b, runtimes.Limits{})
			if err == nil {
				return errors.Join(errors.New("opened with a canceled context"), m.Close())
			}
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("got %v, want %v", err, context.Canceled)
			}
			return nil
		}},
		{"Close twice", func(ctx context.Context) error {
			m, err := e.Open(ctx, b, runtimes.Limits{})
			if err != nil {
				return err
			}
			return errors.Join(m.Close(), m.Close())
		}},
	}
}
