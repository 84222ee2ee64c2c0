package figure

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

// free is an unlimited meter.
type free struct{}

func (free) Step(int64) error { return nil }
func (free) Hold(int64) error { return nil }

// share counts successes.
type share struct{ right, all int }

func (s *share) add(right bool) {
	s.all++
	if right {
		s.right++
	}
}

// String formats the share in percent with its 95 % interval (Wilson 1927).
func (s share) String() string {
	const z = 1.96
	n, p := float64(s.all), float64(s.right)/float64(s.all)
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	f := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }
	return f(p) + " % [" + f(middle-half) + ", " + f(middle+half) + "] of " + strconv.Itoa(s.all)
}

func (s share) least(t *testing.T, what string, percent float64) {
	t.Helper()
	t.Logf("%s: %v", what, s)
	if got := 100 * float64(s.right) / float64(s.all); got < percent {
		t.Errorf("%s: %.1f %%, want %.0f", what, got, percent)
	}
}

// TestReadChart reads rendered charts of known values: MM_CHARTS of them, by
// default a few.
func TestReadChart(t *testing.T) {
	set, err := Letters()
	if err != nil {
		t.Fatal(err)
	}
	n := 5
	if s := os.Getenv("MM_CHARTS"); s != "" {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name                           string
		opt                            scene.Options
		counts, values, labels, tables float64 // percent, at least
	}{
		{"held out, 128", scene.Options{Split: scene.Held, Size: 128}, 90, 80, 40, 0},
		{"held out, 384", scene.Options{Split: scene.Held, Size: 384}, 90, 80, 40, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.Kinds, c.opt.Seed = []string{scene.Charts}, 7
			src, err := scene.New(c.opt)
			if err != nil {
				t.Fatal(err)
			}
			var counts, values, labels, wrong, tables, read share
			for i := range n {
				s := src.Make(i)
				got, err := ReadChart(free{}, set, s.RGB, s.W, s.H)
				read.add(err == nil)
				same := err == nil && len(got.Values) == len(s.Truth.Bars)
				counts.add(same)
				if err != nil || !same {
					t.Logf("%d: %v; %d bars of %d", i, err, len(got.Values), len(s.Truth.Bars))
				}
				all := same
				for k, b := range s.Truth.Bars {
					near := same && math.Abs(got.Values[k]-float64(b.Value)) <= float64(b.Value)/20
					values.add(near)
					named := same && strings.EqualFold(got.Labels[k], b.Label)
					labels.add(named)
					wrong.add(same && !named && got.Labels[k] != "bar "+strconv.Itoa(k+1))
					all = all && near
					if same && n <= 30 && (!near || !named) {
						t.Logf("%d: %s %v for %s %d (to %d by %d)", i, got.Labels[k], got.Values[k], b.Label, b.Value, s.Truth.Top, s.Truth.Step)
					}
				}
				tables.add(all)
			}
			read.least(t, "charts read", c.counts)
			counts.least(t, "counts", c.counts)
			values.least(t, "values within 5 %", c.values)
			labels.least(t, "labels", c.labels)
			if t.Logf("labels that are wrong: %v", wrong); wrong.right > wrong.all/10 {
				t.Errorf("%d of %d labels are wrong", wrong.right, wrong.all)
			}
			tables.least(t, "all values of a chart", c.tables)
		})
	}
}

func BenchmarkReadChart(b *testing.B) {
	set, err := Letters()
	if err != nil {
		b.Fatal(err)
	}
	src, err := scene.New(scene.Options{Split: scene.Held, Size: 384, Kinds: []string{scene.Charts}})
	if err != nil {
		b.Fatal(err)
	}
	s := src.Make(1)
	for b.Loop() {
		if _, err := ReadChart(free{}, set, s.RGB, s.W, s.H); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := Letters(); err != nil {
			b.Fatal(err)
		}
	}
}
