package decode

import (
	"math"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/nn"
)

// The core of the repository.
const coreFile = "../../catalog/core-llm/core-llm.gguf"

// A decoder is trained on the states that `mm run` passes to it: those of
// core/infer for the prompt, the last of them, preceded by zeros.
func TestStates(t *testing.T) {
	t.Run("core", func(t *testing.T) { testStates(t, Core{Base: coreFile, States: 12}, 0.9999) })
	t.Run("adapter", func(t *testing.T) {
		testStates(t, Core{Base: coreFile, Adapter: filepath.Join("..", "..", "catalog", "senses", "senses.gguf"), States: 12}, 0.9995) // merged, instead of applied separately
	})
}

func testStates(t *testing.T, c Core, least float64) {
	workers := pool.New(1)
	defer workers.Close()
	r, err := openReader(c, "", workers)
	if err != nil {
		t.Fatal(err)
	}
	opt := infer.Options{Threads: 1}
	if c.Adapter != "" {
		opt.Adapters = []infer.AdapterOptions{{Path: c.Adapter}}
	}
	m, err := infer.Load(coreFile, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	for _, prompt := range []string{"draw it", "draw a red one at the top", "please draw a small red circle at the top left"} {
		ids := r.encode(prompt)
		if ids[0] != r.tok.Special().BOS {
			t.Errorf("%q: first token %d", prompt, ids[0])
		}
		s, err := m.NewSession(infer.SessionOptions{Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		want, err := s.Hidden(max(len(ids)-12, 0), len(ids))
		if err != nil {
			t.Fatal(err)
		}
		b := []example{{key: -1, prompt: prompt}}
		if err := r.read(b); err != nil {
			t.Fatal(err)
		}
		if len(b[0].states) != len(want) {
			t.Fatalf("%q: %d numbers, want %d", prompt, len(b[0].states), len(want))
		}
		for from := 0; from < len(want); from += 256 {
			if c := cosine(b[0].states[from:from+256], want[from:from+256]); !(c >= least) {
				t.Errorf("%q: state %d: cosine %v", prompt, from/256, c)
			}
		}
		l := learner{B: 1, states: nn.NewMatrix[float32](12, 256)}
		for i := range l.states.Data {
			l.states.Data[i] = 7
		}
		l.read(0, b[0].states)
		have := len(want) / 256
		for i := range 12 {
			var sum float64
			for _, v := range l.states.Row(i) {
				sum += math.Abs(float64(v))
			}
			if (sum == 0) != (i < 12-have) {
				t.Errorf("%q: %d states, row %d sums to %v", prompt, have, i, sum)
			}
		}
	}
}

func cosine(a, b []float32) float64 {
	var dot, x, y float64
	for i := range a {
		dot, x, y = dot+float64(a[i])*float64(b[i]), x+float64(a[i])*float64(a[i]), y+float64(b[i])*float64(b[i])
	}
	return dot / math.Sqrt(x*y)
}

// A repeated prompt is cached, one without a number is not, and the states of a
// prompt do not depend on the others in its batch.
func TestReading(t *testing.T) {
	workers := pool.New(2)
	defer workers.Close()
	r, err := openReader(Core{Base: reading(t), States: 20}, "", workers)
	if err != nil {
		t.Fatal(err)
	}
	b := []example{{key: 4, prompt: "draw a small red circle"}, {key: -1, prompt: "draw"}, {key: 4, prompt: "draw a small red circle"}, {key: 0, prompt: "paint a heart"}}
	if err := r.read(b); err != nil {
		t.Fatal(err)
	}
	if !r.cached(4) || !r.cached(0) || r.cached(-1) || r.size != len(b[0].states)+len(b[3].states) {
		t.Errorf("%d numbers cached of %v", r.size, len(r.held))
	}
	alone := []example{{key: -1, prompt: "paint a heart"}}
	if err := r.read(alone); err != nil {
		t.Fatal(err)
	}
	for i, v := range b[3].states {
		if alone[0].states[i] != v {
			t.Fatalf("number %d is %v, want %v", i, alone[0].states[i], v)
		}
	}
	size := len(b[3].states)
	for key, room := range []int{0: size, 1: size - 1} {
		r.size = maxHeldStates - room
		if err := r.read([]example{{key: 10 + key, prompt: "paint a heart"}}); err != nil {
			t.Fatal(err)
		}
		if r.cached(10+key) != (room == size) {
			t.Errorf("%d states with room for %d of maxHeldStates: cached %v", size, room, r.cached(10+key))
		}
	}
	long := make([]byte, 2000)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	if err := r.read([]example{{key: -1, prompt: string(long)}}); err == nil {
		t.Error("read a prompt longer than the context")
	}
}
