package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ln returns logits whose softmax is p.
func ln(p ...float64) []float32 {
	x := make([]float32, len(p))
	for i, v := range p {
		x[i] = float32(math.Log(v))
	}
	return x
}

func TestDistribution(t *testing.T) {
	p := ln(0.1, 0.4, 0.05, 0.3, 0.15)
	for _, c := range []struct {
		name    string
		opt     Options
		logits  []float32
		history []int32
		want    []Candidate
	}{
		{"greedy", Options{}, p, nil, []Candidate{{Token: 1, P: 1}}},
		{"all", Options{Temperature: 1}, p, nil, []Candidate{{Token: 1, P: .4}, {Token: 0, P: .1}, {Token: 2, P: .05}, {Token: 3, P: .3}, {Token: 4, P: .15}}},
		{"hot", Options{Temperature: 2}, ln(.64, .36), nil, []Candidate{{Token: 0, P: .8 / 1.4}, {Token: 1, P: .6 / 1.4}}},
		{"top-k", Options{Temperature: 1, TopK: 2}, p, nil, []Candidate{{Token: 1, P: .4 / .7}, {Token: 3, P: .3 / .7}}},
		{"top-p", Options{Temperature: 1, TopP: .69}, p, nil, []Candidate{{Token: 1, P: .4 / .7}, {Token: 3, P: .3 / .7}}},
		{"top-p next", Options{Temperature: 1, TopP: .71}, p, nil, []Candidate{{Token: 1, P: .4 / .85}, {Token: 3, P: .3 / .85}, {Token: 4, P: .15 / .85}}},
		{"min-p", Options{Temperature: 1, MinP: .36}, p, nil, []Candidate{{Token: 1, P: .4 / .85}, {Token: 3, P: .3 / .85}, {Token: 4, P: .15 / .85}}},
		{"top-p of top-k", Options{Temperature: 1, TopK: 2, TopP: .57}, p, nil, []Candidate{{Token: 1, P: 1}}},
		{"top-p and min-p", Options{Temperature: 1, TopP: .9, MinP: .5}, p, nil, []Candidate{{Token: 1, P: .4 / .7}, {Token: 3, P: .3 / .7}}},
		{"top-p far", Options{Temperature: 1, TopP: .9999999}, []float32{0, -40, float32(math.NaN())}, nil, []Candidate{{Token: 0, P: 1}}},
		{"ties", Options{Temperature: 1, TopK: 2}, ln(.2, .2, .2, .2, .2), nil, []Candidate{{Token: 0, P: .5}, {Token: 1, P: .5}}},
		{"penalty", Options{RepeatPenalty: 2}, []float32{3, 4, -1}, []int32{1, 1, 2, -1, 99}, []Candidate{{Token: 0, P: 1}}},
		{"penalty window", Options{RepeatPenalty: 2, RepeatLast: 1}, []float32{3, 4, -1}, []int32{1, 2}, []Candidate{{Token: 1, P: 1}}},
		{"mask", Options{Temperature: 1}, []float32{float32(math.Inf(-1)), 1, float32(math.NaN())}, nil, []Candidate{{Token: 1, P: 1}}},
		{"certain", Options{Temperature: 1}, []float32{0, float32(math.Inf(1))}, nil, []Candidate{{Token: 1, P: 1}}},
	} {
		s, err := New(c.opt)
		if err != nil {
			t.Fatal(err)
		}
		before := append([]float32(nil), c.logits...)
		got, err := s.Distribution(c.logits, c.history)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Candidate{}), cmpopts.EquateApprox(0, 1e-6)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, d)
		}
		if !cmp.Equal(before, c.logits, cmpopts.EquateNaNs()) {
			t.Errorf("%s: the logits were changed", c.name)
		}
	}
}

// TestTopKOfMany compares the selection with a plain one.
func TestTopKOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		x := make([]float32, 3000)
		for i := range x {
			x[i] = float32(r.IntN(900)) // with ties
		}
		all, _ := New(Options{Temperature: 50})
		want, _ := all.Distribution(x, nil)
		slices.SortFunc(want, func(a, b Candidate) int {
			if x[a.Token] != x[b.Token] {
				return int(x[b.Token] - x[a.Token])
			}
			return int(a.Token - b.Token)
		})
		few, _ := New(Options{Temperature: 50, TopK: 40})
		got, _ := few.Distribution(x, nil)
		if len(got) != 40 {
			t.Fatalf("%d candidates", len(got))
		}
		for i := range got {
			if got[i].Token != want[i].Token {
				t.Fatalf("candidate %d is %d, want %d", i, got[i].Token, want[i].Token)
			}
		}
	}
}

func TestNone(t *testing.T) {
	s, _ := New(Options{Temperature: 1})
	for _, x := range [][]float32{nil, {float32(math.Inf(-1))}, {float32(math.NaN()), float32(math.NaN())}} {
		if _, err := s.Sample(x, nil); !errors.Is(err, ErrNone) {
			t.Errorf("%v: %v", x, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, o := range []Options{{Temperature: -1}, {Temperature: float32(math.NaN())}, {TopK: -1}, {TopP: 2}, {MinP: -.1}, {RepeatPenalty: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestSampleFrequencies draws many times and compares with the probabilities;
// the same seed draws the same.
func TestSampleFrequencies(t *testing.T) {
	x := ln(.5, .3, .2)
	s, _ := New(Options{Temperature: 1, Seed: 5})
	again, _ := New(Options{Temperature: 1, Seed: 5})
	counts := make([]float64, 3)
	const n = 100000
	for range n {
		a, _ := s.Sample(x, nil)
		b, _ := again.Sample(x, nil)
		if a != b {
			t.Fatal("the same seed draws differently")
		}
		counts[a]++
	}
	for i, p := range []float64{.5, .3, .2} {
		if d := counts[i]/n - p; math.Abs(d) > 4*math.Sqrt(p*(1-p)/n) {
			t.Errorf("token %d was drawn with frequency %v, probability %v", i, counts[i]/n, p)
		}
	}
}

// TestFollow: a follower draws what the other draws next, without consuming its
// draw.
func TestFollow(t *testing.T) {
	opt := Options{Temperature: 1, Seed: 9}
	a, _ := New(opt)
	plain, _ := New(opt)
	b, _ := New(Options{Temperature: 1, Seed: 10})
	x := make([]float32, 1000)
	for i := range 50 {
		b.Follow(a)
		ahead, _ := b.Sample(x, nil)
		ahead2, _ := b.Sample(x, nil)
		got, _ := a.Sample(x, nil)
		want, _ := plain.Sample(x, nil)
		if got != ahead || got != want || ahead == ahead2 {
			t.Fatalf("draw %d is %d, was followed as %d, is %d alone", i, got, ahead, want)
		}
	}
}

func ExampleSampler() {
	s, _ := New(Options{Temperature: 2, TopK: 2, Seed: 1})
	for range 5 {
		token, _ := s.Sample([]float32{1, 3, 2, 0}, nil)
		fmt.Print(token, " ")
	}
	// Output: 1 1 1 2 1
}

func BenchmarkSample(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 2))
	x := make([]float32, 49152)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 3)
	}
	for name, o := range map[string]Options{
		"greedy": {}, "temperature": {Temperature: 1}, "top-k": {Temperature: 1, TopK: 40}, "top-p": {Temperature: 1, TopP: .9}, "min-p": {Temperature: 1, MinP: .05},
	} {
		b.Run(name, func(b *testing.B) {
			s, _ := New(o)
			for b.Loop() {
				if _, err := s.Sample(x, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
