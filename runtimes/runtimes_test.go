package runtimes_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

// engine is an engine that may be unavailable, or refuse parts.
type engine struct {
	name         string
	gone, unable error
}

func (e engine) Name() string                                 { return e.name }
func (e engine) Probe(context.Context) (runtimes.Info, error) { return runtimes.Info{}, e.gone }
func (e engine) Can(builds.Part) error                        { return e.unable }
func (e engine) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return nil, nil
}

// other is an engine with aliases.
type other struct {
	engine
	names []string
}

func (o other) Aliases() []string { return o.names }

func TestAliases(t *testing.T) {
	x := other{engine{name: "llamacpp"}, []string{"gguf", "own"}}
	for name, want := range map[string]string{"gguf": "llamacpp", "llamacpp": "llamacpp", "own": "own"} {
		e, err := runtimes.Select(t.Context(), []runtimes.Engine{x, engine{name: "own"}}, name, builds.Part{Name: "x", Version: "1.0.0"})
		if err != nil || e.Name() != want {
			t.Errorf("%s is %v, %v, want %s", name, e, err, want)
		}
	}
}

func TestSelect(t *testing.T) {
	ctx := context.Background()
	gone := engine{name: "gone", gone: &runtimes.Unavailable{What: "backend gone", Why: "it left"}}
	unable := engine{name: "unable", unable: &runtimes.Unavailable{What: "x@1.0.0", Why: "no file"}}
	here := engine{name: "here"}
	for _, c := range []struct {
		engines []runtimes.Engine
		name    string
		want    string // the engine, or part of the error
	}{
		{[]runtimes.Engine{gone, unable, here}, "", "here"},
		{[]runtimes.Engine{here, engine{name: "second"}}, "", "here"},
		{[]runtimes.Engine{gone, unable}, "", "it left"},
		{[]runtimes.Engine{unable, gone}, "", "it left"}, // it could open the part
		{[]runtimes.Engine{unable, engine{name: "other", unable: errors.New("nor this")}}, "", "no file"},
		{nil, "", "has no backend"},
		{[]runtimes.Engine{gone, here}, "gone", "it left"},
		{[]runtimes.Engine{here, unable}, "unable", "no file"},
		{[]runtimes.Engine{here}, "qnn", "does not have it"},
		{[]runtimes.Engine{here, engine{name: "second"}}, "second", "second"},
	} {
		e, err := runtimes.Select(ctx, c.engines, c.name, builds.Part{Name: "x", Version: "1.0.0"})
		if err == nil && e.Name() != c.want {
			t.Errorf("%q of %v is %s, want %s", c.name, c.engines, e.Name(), c.want)
		}
		if err != nil && (!errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q of %v: %v, want %q", c.name, c.engines, err, c.want)
		}
	}
}

func TestTensorCheck(t *testing.T) {
	for _, c := range []struct {
		t    runtimes.Tensor
		want string // of the error; "": none
	}{
		{runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{2, 3}, Data: make([]byte, 24)}, ""},
		{runtimes.Tensor{Type: runtimes.Float64, Data: make([]byte, 8)}, ""},
		{runtimes.Tensor{Type: runtimes.Uint16, Shape: []int64{0, 5}}, ""},
		{runtimes.Tensor{Type: runtimes.Bool, Shape: []int64{3}, Data: make([]byte, 3)}, ""},
		{runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{2, 3}, Data: make([]byte, 23)}, "23 bytes"},
		{runtimes.Tensor{Type: "int5", Shape: []int64{2}, Data: make([]byte, 1)}, "unknown element type"},
		{runtimes.Tensor{Type: runtimes.Int4, Shape: []int64{3}, Data: make([]byte, 2)}, ""},
		{runtimes.Tensor{Type: runtimes.Int4, Shape: []int64{3}, Data: make([]byte, 1)}, "1 bytes"},
		{runtimes.Tensor{Type: runtimes.Uint2, Shape: []int64{5}, Data: make([]byte, 2)}, ""},
		{runtimes.Strings([]int64{2}, []string{"", "two\x00"}), ""},
		{runtimes.Strings([]int64{3}, []string{"", "two"}), "holds 2 texts"},
		{runtimes.Strings([]int64{1 << 33, 1 << 33}, nil), "holds 0 texts"},
		{runtimes.Strings([]int64{-1}, nil), "negative"},
		{runtimes.Strings([]int64{1 << 40, 1 << 40, 0}, nil), ""},
		{runtimes.Tensor{Type: runtimes.String, Shape: []int64{1}, Data: []byte{4, 0, 0, 0, 'a'}}, "data truncated"},
		{runtimes.Tensor{Type: runtimes.String, Shape: []int64{1}, Data: []byte{0, 0}}, "data truncated"},
		{runtimes.Tensor{Type: runtimes.Int8, Shape: []int64{-1, -1}, Data: make([]byte, 1)}, "negative"},
		{runtimes.Tensor{Type: runtimes.Int8, Shape: make([]int64, 33)}, "33 dimensions"},
		{runtimes.Tensor{Type: runtimes.Int64, Shape: []int64{1 << 32, 1 << 32}}, "0 bytes"},
		{runtimes.Tensor{Type: runtimes.Int64, Shape: []int64{1 << 61}}, "0 bytes"}, // 2⁶⁴ bytes
		{runtimes.Tensor{Type: runtimes.Int8, Shape: []int64{math.MaxInt64, 2, 0}}, ""},
	} {
		err := c.t.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v with %d bytes: %v, want %q", c.t.Type, c.t.Shape, len(c.t.Data), err, c.want)
		}
	}
}

func TestMisfits(t *testing.T) {
	bytesOf := func(n int64) runtimes.Tensor {
		return runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{n}, Data: make([]byte, n)}
	}
	want := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{2}}, "y": {Type: runtimes.Uint8, Shape: []int64{1}}}
	if err := runtimes.Misfits(map[string]runtimes.Tensor{"x": bytesOf(2), "y": bytesOf(1)}, want); err != nil {
		t.Error(err)
	}
	for text, in := range map[string]map[string]runtimes.Tensor{
		"missing input x\nmissing input y":                nil,
		"unknown input z, want one of [x y]":              {"x": bytesOf(2), "y": bytesOf(1), "z": bytesOf(1)},
		"input x: got uint8 [3], want uint8 [2]":          {"x": bytesOf(3), "y": bytesOf(1)},
		"input y: got int8 [1], want uint8 [1]":           {"x": bytesOf(2), "y": {Type: runtimes.Int8, Shape: []int64{1}, Data: []byte{0}}},
		"input x: " + (runtimes.Tensor{}).Check().Error(): {"x": {}, "y": bytesOf(1)},
	} {
		if err := runtimes.Misfits(in, want); err == nil || err.Error() != text {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

func TestElemSizes(t *testing.T) {
	for size, types := range map[int][]runtimes.Elem{
		8: {runtimes.Float64, runtimes.Int64, runtimes.Uint64}, 4: {runtimes.Float32, runtimes.Int32, runtimes.Uint32},
		2: {runtimes.Float16, runtimes.BFloat16, runtimes.Int16, runtimes.Uint16}, 1: {runtimes.Int8, runtimes.Uint8, runtimes.Bool}, 0: {"fp8", ""},
	} {
		for _, e := range types {
			if e.Size() != size {
				t.Errorf("%s has %d bytes, want %d", e, e.Size(), size)
			}
		}
	}
}

func TestGrammar(t *testing.T) {
	g := &runtimes.Grammar{States: []runtimes.State{
		{Else: 0, Edges: []runtimes.Edge{{From: 2, To: 3, Next: 1}, {From: 5, To: 5, Next: runtimes.Nowhere}}},
		{Else: runtimes.Nowhere, Edges: []runtimes.Edge{{From: 7, To: 9, Next: 0}}},
	}}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	for state, want := range [][]int32{{0, 0, 1, 1, 0, -1, 0, 0}, {-1, -1, -1, -1, -1, -1, -1, 0}} {
		logits := make([]float32, 8)
		g.Mask(int32(state), logits)
		for token, next := range want {
			if got := g.Next(int32(state), int32(token)); got != next {
				t.Errorf("state %d, token %d leads to %d, want %d", state, token, got, next)
			}
			if forbidden := math.IsInf(float64(logits[token]), -1); forbidden != (next == runtimes.Nowhere) {
				t.Errorf("state %d, token %d: forbidden %v", state, token, forbidden)
			}
		}
	}
	for _, state := range []int32{runtimes.Nowhere, 2} {
		logits := make([]float32, 3)
		if g.Mask(state, logits); g.Next(state, 0) != runtimes.Nowhere || slices.Max(logits) == 0 {
			t.Errorf("state %d allows something", state)
		}
	}
	for name, bad := range map[string]*runtimes.Grammar{
		"no states":        {},
		"an unknown state": {States: []runtimes.State{{Else: 1}}},
		"an unknown edge":  {States: []runtimes.State{{Edges: []runtimes.Edge{{From: 0, To: 0, Next: 4}}}}},
		"overlapping":      {States: []runtimes.State{{Edges: []runtimes.Edge{{From: 0, To: 3}, {From: 3, To: 4}}}}},
		"backwards":        {States: []runtimes.State{{Edges: []runtimes.Edge{{From: 3, To: 2}}}}},
		"negative":         {States: []runtimes.State{{Edges: []runtimes.Edge{{From: -5, To: 2}}}}},
		"below nowhere":    {States: []runtimes.State{{Else: -2}}},
		"too large":        {States: make([]runtimes.State, 1<<20+1)},
	} {
		if bad.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Choices with a common prefix, one of them a prefix of another.
func TestSequences(t *testing.T) {
	g := runtimes.Sequences([][]int32{{5, 6}, {5, 6, 7}, {4}}, []int32{0, 1})
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	ends := func(tokens ...int32) bool {
		state := int32(0)
		for _, token := range tokens {
			state = g.Next(state, token)
		}
		return state != runtimes.Nowhere
	}
	for _, c := range []struct {
		tokens []int32
		want   bool
	}{
		{[]int32{5, 6, 0}, true}, {[]int32{5, 6, 7, 1}, true}, {[]int32{4, 0}, true}, {[]int32{5, 6}, true},
		{[]int32{5, 0}, false}, {[]int32{6}, false}, {[]int32{4, 0, 0}, false}, {[]int32{5, 6, 7, 7}, false}, {[]int32{0}, false},
	} {
		if got := ends(c.tokens...); got != c.want {
			t.Errorf("%v is allowed: %v", c.tokens, got)
		}
	}
}

func TestEntry(t *testing.T) {
	b := runtimes.Bundle{Part: builds.Part{Name: "x", Version: "1.0.0"}}
	if _, err := b.Entry("onnx"); !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), "x@1.0.0") {
		t.Errorf("no file: %v", err)
	}
}

func TestLimits(t *testing.T) {
	for _, l := range []runtimes.Limits{{Threads: -1}, {Memory: -1}, {Time: -1}} {
		if l.Check() == nil {
			t.Errorf("%+v", l)
		}
	}
	if err := (runtimes.Limits{Threads: 3}).Check(); err != nil {
		t.Error(err)
	}
}

// Rows counts positions, and refuses those that a model cannot read.
func TestRows(t *testing.T) {
	plain, wide := runtimes.Shape{Width: 4}, runtimes.Shape{Width: 4, Deep: 2, Grid: true, Mutual: true}
	row, deep := make([]float32, 4), make([]float32, 12)
	for _, c := range []struct {
		shape runtimes.Shape
		p     runtimes.Positions
		n     int
		want  string
	}{
		{plain, runtimes.Positions{}, 0, ""},
		{plain, runtimes.Positions{Tokens: []int32{1, 2}}, 2, ""},
		{plain, runtimes.Positions{Vectors: deep}, 3, ""},
		{wide, runtimes.Positions{Vectors: deep, Deep: true, Grid: [3]int{1, 1, 1}, Mutual: true}, 1, ""},
		{plain, runtimes.Positions{Vectors: deep[:7]}, 0, "7 numbers are not vectors of width 4"},
		{wide, runtimes.Positions{Vectors: row, Deep: true}, 0, "not vectors of width 12"},
		{plain, runtimes.Positions{Tokens: []int32{1}, Vectors: row}, 0, "both tokens and vectors"},
		{plain, runtimes.Positions{Vectors: row, Deep: true}, 0, "vectors for further layers"},
		{plain, runtimes.Positions{Vectors: row, Grid: [3]int{1, 1, 1}}, 0, "positions in a grid"},
		{plain, runtimes.Positions{Vectors: row, Mutual: true}, 0, "positions that see each other"},
	} {
		n, err := c.shape.Rows(c.p)
		if n != c.n || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %d, %v, want %d, %q", c.p, n, err, c.n, c.want)
		}
	}
}
