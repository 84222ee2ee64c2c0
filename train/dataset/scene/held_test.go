package scene

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// No color of the held-out split is drawn in training, with any jitter, and
// every shade is nearest to its name.
func TestShadesDiffer(t *testing.T) {
	for _, n := range colours {
		for _, h := range n.held {
			for _, m := range colours {
				for _, s := range m.train {
					if maxDifference(h, s) <= trainJitter+heldJitter {
						t.Errorf("%s: held-out %v is in training as %s %v", n.name, h, m.name, s)
					}
				}
			}
		}
		for _, s := range slices.Concat(n.train, n.held) {
			for d := range 8 {
				c := s
				for i := range c {
					c[i] = clamp(int(c[i]) + (d>>i&1*2-1)*trainJitter)
				}
				if got := nearest(c); got != n.name {
					t.Errorf("%s %v is nearest to %s", n.name, c, got)
				}
			}
		}
	}
	for _, h := range grounds.held {
		for _, s := range grounds.train {
			if maxDifference(h, s) <= 2*heldJitter {
				t.Errorf("held-out ground %v is in training as %v", h, s)
			}
		}
	}
	for _, g := range slices.Concat(grounds.train, grounds.held) {
		if n := len(against(g)); n < 6 {
			t.Errorf("only %d colors visible on %v", n, g)
		}
	}
}

// maxDifference returns the largest difference of a channel.
func maxDifference(a, b rgb) int {
	most := 0
	for i := range a {
		d := int(a[i]) - int(b[i])
		most = max(most, d, -d)
	}
	return most
}

// The held-out numbers and invented-up words are in no training image.
func TestWordsDiffer(t *testing.T) {
	lexical := map[string]bool{}
	for _, w := range lexicon {
		lexical[w] = true
		if len(w) > 8 {
			t.Errorf("%q has %d letters", w, len(w))
		}
	}
	for _, split := range []string{Train, Held} {
		s, err := New(Options{Split: split, Size: 64, Kinds: []string{Words, Digits}})
		if err != nil {
			t.Fatal(err)
		}
		p, invented := newPen(s), 0
		for range 5000 {
			if w := p.word(); len(w) >= 3 && !lexical[w] {
				if invented++; heldWord(w) != (split == Held) {
					t.Errorf("%s draws %q", split, w)
				}
			}
			if n := p.number(); n >= 10 && (n%7 == 3) != (split == Held) {
				t.Errorf("%s draws %d", split, n)
			}
		}
		if invented < 1500 {
			t.Errorf("%s: %d of 5,000 words are invented up", split, invented)
		}
	}
}

// Every text is inside the image, for every font.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, split := range []string{Train, Held} {
		for _, size := range []int{64, 128, 200} {
			s, err := New(Options{Split: split, Size: size})
			if err != nil {
				t.Fatal(err)
			}
			p := newPen(s)
			p.rgb = make([]byte, 3*size*size)
			for _, f := range s.fonts {
				for _, text := range []string{"WWWWWWWW", "jjjjjjjj", "g", "9999", "Q"} {
					st := style{font: f, em: p.px(56 * unit), wide: 285, space: 80, angle: 24}
					l := p.fitted(text, st)
					edge := p.px(4 * unit)
					if room := size*unit - 2*edge; l.width() > room || l.height() > room {
						t.Errorf("%s: %q is %d × %d of %d", f.Name, text, l.width(), l.height(), room)
					}
				}
			}
		}
	}
}

// Save never leaves a list without all of its images, and never replaces one.
func TestSave(t *testing.T) {
	s, err := New(Options{Size: 64, Frames: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "scenes")
	if err := os.MkdirAll(filepath.Join(dir, "000001.png", "x"), 0o755); err != nil { // in the way of an image
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "000001"), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := New(Options{Size: 64, Kinds: []string{Shapes}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Save(t.Context(), dir, in, 4); err == nil {
		t.Error("replaced a folder by an image")
	}
	if _, err := os.Stat(filepath.Join(dir, List)); err == nil {
		t.Error("list of missing images")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Save(ctx, filepath.Join(dir, "most"), s, MaxSaved); !errors.Is(err, context.Canceled) {
		t.Errorf("MaxSaved scenes: %v", err)
	}
	for _, n := range []int{0, -1, MaxSaved + 1} {
		if Save(t.Context(), filepath.Join(dir, "n"), s, n) == nil {
			t.Errorf("%d scenes: accepted", n)
		}
	}
}
