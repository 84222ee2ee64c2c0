package scene_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

// Measure finds all properties of the shapes in the generator's images.
func TestMeasure(t *testing.T) {
	t.Parallel()
	n := 20
	if v, err := strconv.Atoi(os.Getenv("MM_SCENES")); err == nil {
		n = v
	}
	for _, c := range []struct {
		name        string
		opt         scene.Options
		noise, blur int
		wrong       int // at most, of 1,000
	}{
		{"plain", scene.Options{Plain: true}, 0, 0, 0},
		{"plain, noise", scene.Options{Plain: true}, 24, 0, 5},
		{"plain, blur", scene.Options{Plain: true}, 0, 2, 5},
		{"plain, noise and blur", scene.Options{Plain: true, Split: scene.Held}, 24, 1, 5},
		{"grounds, camera", scene.Options{}, 0, 0, 10},
		{"held-out grounds, camera", scene.Options{Split: scene.Held}, 0, 0, 10},
	} {
		c.opt.Kinds = []string{scene.Shapes}
		s := source(t, c.opt)
		wrong, least := 0, 1000
		for i := range n {
			sc := s.Make(i)
			spoil(sc.RGB, sc.W, c.noise, c.blur, uint64(i))
			found := scene.Measure(sc.RGB, sc.W, sc.H)
			if !same(found, sc.Truth.Shapes) {
				wrong++
				t.Logf("%s, %d: %+v, found %+v", c.name, i, sc.Truth.Shapes, found.Shapes)
				continue
			}
			for _, m := range found.Shapes {
				least = min(least, m.Fit)
			}
			if got := found.Caption(); got != sc.Caption {
				t.Errorf("%s, %d: %q, found %q", c.name, i, sc.Caption, got)
			}
		}
		t.Logf("%s: %d of %d right, least fit %d", c.name, n-wrong, n, least)
		if wrong*1000 > c.wrong*n {
			t.Errorf("%s: %d of %d wrong", c.name, wrong, n)
		}
	}
}

// same compares all named properties, and the center within two pixels.
func same(f scene.Found, want []scene.Shape) bool {
	if len(f.Shapes) != len(want) {
		return false
	}
	for i, m := range f.Shapes {
		w := want[i]
		if m.Shape.Shape != w.Shape || m.Colour != w.Colour || m.Place != w.Place || m.Size != w.Size || max(m.X-w.X, w.X-m.X) > 2 || max(m.Y-w.Y, w.Y-m.Y) > 2 {
			return false
		}
	}
	return true
}

// spoil adds noise of up to by per channel, after blurring times times.
func spoil(rgb []byte, w, by, times int, seed uint64) {
	for range times {
		was := append([]byte(nil), rgb...)
		for i := range rgb {
			sum, n := 0, 0
			for _, d := range []int{-3*w - 3, -3 * w, -3*w + 3, -3, 0, 3, 3*w - 3, 3 * w, 3*w + 3} {
				if at := i + d; at >= 0 && at < len(was) {
					sum, n = sum+int(was[at]), n+1
				}
			}
			rgb[i] = uint8(sum / n)
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range rgb {
		if by > 0 {
			rgb[i] = uint8(min(max(int(rgb[i])+r.IntN(2*by+1)-by, 0), 255))
		}
	}
}

// Measure finds no shapes in an empty image, noise or text.
func TestMeasureNothing(t *testing.T) {
	t.Parallel()
	const w, h = 128, 96
	empty := make([]byte, 3*w*h)
	if f := scene.Measure(empty, w, h); len(f.Shapes) != 0 || f.Caption() != "" {
		t.Errorf("black: %+v", f)
	}
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 3*w*h)
	for i := range noise {
		noise[i] = uint8(r.Uint32())
	}
	for _, m := range scene.Measure(noise, w, h).Shapes {
		if m.Fit > 600 {
			t.Errorf("noise: %+v", m)
		}
	}
	// Half of a square beyond the edge is not a square, and images of one pixel
	// are valid.
	scene.Measure([]byte{1, 2, 3}, 1, 1)
	scene.Measure([]byte{1, 2, 3, 250, 250, 250}, 2, 1)
	// A chart and a word are not shapes.
	for _, kind := range []string{scene.Charts, scene.Words} {
		s := source(t, scene.Options{Kinds: []string{kind}, Plain: true})
		good := 0
		for i := range 50 {
			sc := s.Make(i)
			for _, m := range scene.Measure(sc.RGB, sc.W, sc.H).Shapes {
				if m.Fit >= 850 {
					good++
				}
			}
		}
		t.Logf("%s: %d figures in 50 images measured as shapes", kind, good)
	}
}

// Measure distinguishes scenes that differ in one word.
func TestMeasureTellsApart(t *testing.T) {
	t.Parallel()
	s := source(t, scene.Options{Kinds: []string{scene.Shapes}, Plain: true})
	seen := map[string]bool{}
	for i := range 400 {
		sc := s.Make(i)
		if seen[sc.Caption+sc.Truth.Shapes[0].Place] {
			continue
		}
		seen[sc.Caption+sc.Truth.Shapes[0].Place] = true
		other := s.Make(i + 1)
		if sc.Draw != other.Draw && same(scene.Measure(other.RGB, other.W, other.H), sc.Truth.Shapes) {
			t.Errorf("%q measured as %q", other.Draw, sc.Draw)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	s := source(b, scene.Options{Kinds: []string{scene.Shapes}})
	sc := s.Make(3)
	for b.Loop() {
		scene.Measure(sc.RGB, sc.W, sc.H)
	}
}
