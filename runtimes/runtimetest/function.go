package runtimetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/runtimes"
)

// Function is an engine to test with a function and valid inputs.
type Function struct {
	Engine runtimes.Engine
	Bundle runtimes.Bundle
	In     map[string]runtimes.Tensor
	// Long are inputs on which the function computes for a second or more; nil
	// for one that never takes that long, whose engine is then not tried.
	Long map[string]runtimes.Tensor
}

// Cases returns the requirements of functions.
func (f Function) Cases() []Case {
	return append(opening(f.Engine, f.Bundle),
		f.with("the same twice", f.twice),
		f.with("inputs that do not fit", f.misfits),
		f.with("results are the caller's", f.own),
		f.with("a batch of two", f.batch),
		f.with("at once", f.atOnce),
		f.with("cancelled", f.cancelled),
		f.LongCases()[0],
		f.with("closed", f.closed),
		f.with("closed at work", f.closedAtWork),
	)
}

// LongCases returns the requirement that needs a long computation, for an engine whose
// bundles have one shape: one with long inputs, and a fast one for the other cases.
func (f Function) LongCases() []Case {
	return []Case{f.with("cancelled at work", f.cancelledAtWork)}
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
			return fmt.Errorf("Open returned a %T, want a function", m)
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
		return fmt.Errorf("a second Run returned other numbers, or %v", err)
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

// misfits: each misfit is refused and named.
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

// retyped returns the same bytes as another type.
func retyped(t runtimes.Tensor) runtimes.Tensor {
	size := int64(t.Type.Size())
	t.Type = runtimes.Uint8
	t.Shape = append(slices.Clone(t.Shape), size)
	return t
}

// wider returns a tensor of a higher rank with the same numbers twice.
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
		return fmt.Errorf("a change to a result changes the next one, or %v", err)
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
				err = errors.New("concurrent Runs return other numbers")
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
		return fmt.Errorf("canceled Run: got %v", err)
	}
	_, err := m.Run(ctx, f.In)
	return err
}

// batch: if the first dimension of all inputs and outputs is a batch, two inputs in one batch
// yield the results of each alone. A function without batches must report it.
func (f Function) batch(ctx context.Context, m runtimes.Function) error {
	one, err := m.Run(ctx, f.In)
	if err != nil {
		return err
	}
	both := clone(f.In)
	for name, t := range both {
		if len(t.Shape) == 0 || t.Shape[0] != 1 {
			return fmt.Errorf("%w: input %s has no batch of one", ErrAbsent, name)
		}
		t.Shape[0], t.Data = 2, append(t.Data, t.Data...)
		both[name] = t
	}
	two, err := m.Run(ctx, both)
	if err != nil {
		for name := range f.In {
			if strings.Contains(err.Error(), name) {
				return fmt.Errorf("%w: %v", ErrAbsent, err)
			}
		}
		return fmt.Errorf("a batch of two is refused without naming an input: %w", err)
	}
	for name, t := range one {
		got := two[name]
		if len(t.Shape) == 0 || len(got.Shape) != len(t.Shape) || got.Shape[0] != 2*t.Shape[0] || !slices.Equal(got.Shape[1:], t.Shape[1:]) {
			return fmt.Errorf("output %s: shape %v for two, %v for one", name, got.Shape, t.Shape)
		}
		for half := range 2 {
			part := runtimes.Tensor{Type: t.Type, Shape: t.Shape, Data: got.Data[half*len(t.Data):][:len(t.Data)]}
			if err := near(part, t); err != nil {
				return fmt.Errorf("output %s, half %d: %w", name, half, err)
			}
		}
	}
	return nil
}

// near compares floats approximately, since a kernel may add in another order for a larger
// batch, and other types exactly.
func near(got, want runtimes.Tensor) error {
	size, tolerance := want.Type.Size(), 0.0
	read := map[runtimes.Elem]func([]byte) float64{
		runtimes.Float32: func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
		runtimes.Float16: func(b []byte) float64 { return float64(tensor.F16ToF32(binary.LittleEndian.Uint16(b))) },
	}[want.Type]
	if read == nil {
		if !bytes.Equal(got.Data, want.Data) {
			return errors.New("other numbers")
		}
		return nil
	}
	if tolerance = 1e-4; want.Type == runtimes.Float16 {
		tolerance = 1e-2
	}
	for i := 0; i < len(want.Data); i += size {
		a, b := read(got.Data[i:]), read(want.Data[i:])
		if !(math.Abs(a-b) <= tolerance*(1+math.Abs(b))) && !(math.IsNaN(a) && math.IsNaN(b)) {
			return fmt.Errorf("element %d is %g, alone %g", i/size, a, b)
		}
	}
	return nil
}

// patience bounds the time of a function after a cancellation.
const patience = 50 * time.Millisecond

// cancelledAtWork: a Run ends soon after its context, and the next one works. There are ten
// tries, for busy machines.
func (f Function) cancelledAtWork(ctx context.Context, m runtimes.Function) error {
	if f.Long == nil {
		return fmt.Errorf("%w: no long computation", ErrAbsent)
	}
	var late time.Duration
	for range 10 {
		ended, end := context.WithCancel(ctx)
		canceled := make(chan time.Time, 1)
		timer := time.AfterFunc(2*patience, func() { canceled <- time.Now(); end() })
		_, err := m.Run(ended, f.Long)
		timer.Stop()
		end()
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("Run canceled while computing: got %v", err)
		}
		late = time.Since(<-canceled)
		if _, err := m.Run(ctx, f.In); err != nil {
			return err
		}
		if late <= patience {
			return nil
		}
	}
	return fmt.Errorf("Run ended %v after the cancellation, limit %v", late, patience)
}

// closedAtWork: Close during Runs cancels them or waits for them; each returns its result or
// ErrClosed, and no Run starts afterwards.
func (f Function) closedAtWork(ctx context.Context, m runtimes.Function) error {
	want, err := m.Run(ctx, f.In)
	if err != nil {
		return err
	}
	var stop atomic.Bool
	var errs [3]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for last := false; ; last = stop.Load() {
				got, err := m.Run(ctx, f.In)
				switch {
				case errors.Is(err, runtimes.ErrClosed):
					return
				case err != nil || !reflect.DeepEqual(got, want):
					errs[i] = fmt.Errorf("Run during Close: other numbers, or %w", err)
					return
				case last:
					errs[i] = errors.New("Run after Close returned numbers")
					return
				}
			}
		})
	}
	time.Sleep(patience / 5)
	err = m.Close()
	stop.Store(true)
	wg.Wait()
	return errors.Join(append(errs[:], err)...)
}

func (f Function) closed(ctx context.Context, m runtimes.Function) error {
	if err := m.Close(); err != nil {
		return err
	}
	if _, err := m.Run(ctx, f.In); !errors.Is(err, runtimes.ErrClosed) {
		return fmt.Errorf("Run of a closed function: got %v, want %v", err, runtimes.ErrClosed)
	}
	return nil
}
