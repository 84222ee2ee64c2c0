package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/runtimes"
)

// Function is an engine with a function to test it on, and inputs that it
// takes.
type Function struct {
	Engine runtimes.Engine
	Bundle runtimes.Bundle
	In     map[string]runtimes.Tensor
}

// Cases are what a function must keep.
func (f Function) Cases() []Case {
	return append(opening(f.Engine, f.Bundle),
		f.with("the same twice", f.twice),
		f.with("inputs that do not fit", f.misfits),
		f.with("results are the caller's", f.own),
		f.with("at once", f.atOnce),
		f.with("cancelled", f.cancelled),
		f.with("closed", f.closed),
	)
}

func (f Function) with(name string, run func(context.Context, runtimes.Function) error) Case {
	return Case{name, func(ctx context.Context) (err error) {
		m, err := f.Engine.Open(ctx, f.Bundle, runtimes.Limits{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		open, ok := m.(runtimes.Function)
		if !ok {
			return fmt.Errorf("a %T from Open, which is no function", m)
		}
		return run(ctx, open)
	}}
}

func (f Function) twice(ctx context.Context, m runtimes.Function) error {
	before := clone(f.In)
	a, err := m.Run(ctx, f.In)
	if err != nil {
		return err
	}
	if len(a) == 0 {
		return errors.New("no output")
	}
	for name, t := range a {
		if err := t.Check(); err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
	}
	b, err := m.Run(ctx, f.In)
	if err != nil || !reflect.DeepEqual(a, b) {
		return fmt.Errorf("a second Run gave other numbers, or %v", err)
	}
	if !reflect.DeepEqual(before, f.In) {
		return errors.New("Run changed its inputs")
	}
	return nil
}

func clone(in map[string]runtimes.Tensor) map[string]runtimes.Tensor {
	out := maps.Clone(in)
	for name, t := range out {
		t.Shape, t.Data = slices.Clone(t.Shape), slices.Clone(t.Data)
		out[name] = t
	}
	return out
}

// misfits: each fault is refused, by name.
func (f Function) misfits(ctx context.Context, m runtimes.Function) error {
	for name, t := range f.In {
		for what, change := range map[string]func(map[string]runtimes.Tensor){
			"missing":        func(in map[string]runtimes.Tensor) { delete(in, name) },
			"another type":   func(in map[string]runtimes.Tensor) { in[name] = retyped(t) },
			"another shape":  func(in map[string]runtimes.Tensor) { in[name] = wider(t) },
			"data cut short": func(in map[string]runtimes.Tensor) { t := in[name]; t.Data = t.Data[:len(t.Data)-1]; in[name] = t },
			"a negative size": func(in map[string]runtimes.Tensor) {
				t := in[name]
				t.Shape = append([]int64{-1}, t.Shape...)
				in[name] = t
			},
		} {
			in := clone(f.In)
			change(in)
			if _, err := m.Run(ctx, in); err == nil || !strings.Contains(err.Error(), name) {
				return fmt.Errorf("input %s, %s: %v", name, what, err)
			}
		}
	}
	in := clone(f.In)
	in["no-such-input"] = runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1}, Data: []byte{0}}
	if _, err := m.Run(ctx, in); err == nil || !strings.Contains(err.Error(), "no-such-input") {
		return fmt.Errorf("an unknown input: %v", err)
	}
	return nil
}

// retyped is the same bytes as another type.
func retyped(t runtimes.Tensor) runtimes.Tensor {
	size := int64(t.Type.Size())
	t.Type = runtimes.Uint8
	t.Shape = append(slices.Clone(t.Shape), size)
	return t
}

// wider is a tensor of another rank that holds the same numbers twice.
func wider(t runtimes.Tensor) runtimes.Tensor {
	t.Shape = append([]int64{2, 1}, t.Shape...)
	t.Data = append(slices.Clone(t.Data), t.Data...)
	return t
}

func (f Function) own(ctx context.Context, m runtimes.Function) error {
	a, err := m.Run(ctx, f.In)
	if err != nil {
		return err
	}
	want := clone(a)
	for _, t := range a {
		for i := range t.Data {
			t.Data[i] ^= 0xFF
		}
	}
	b, err := m.Run(ctx, f.In)
	if err != nil || !reflect.DeepEqual(b, want) {
		return fmt.Errorf("who changes a result changes the next, or %v", err)
	}
	return nil
}

func (f Function) atOnce(ctx context.Context, m runtimes.Function) error {
	want, err := m.Run(ctx, f.In)
	if err != nil {
		return err
	}
	var errs [4]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			got, err := m.Run(ctx, f.In)
			if err == nil && !reflect.DeepEqual(got, want) {
				err = errors.New("several Runs at once give other numbers")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (f Function) cancelled(ctx context.Context, m runtimes.Function) error {
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := m.Run(ended, f.In); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a cancelled Run gave %v", err)
	}
	_, err := m.Run(ctx, f.In)
	return err
}

func (f Function) closed(ctx context.Context, m runtimes.Function) error {
	if err := m.Close(); err != nil {
		return err
	}
	if _, err := m.Run(ctx, f.In); !errors.Is(err, runtimes.ErrClosed) {
		return fmt.Errorf("Run of a closed function: %v, want %v", err, runtimes.ErrClosed)
	}
	return nil
}
