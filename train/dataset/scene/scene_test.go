package scene_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

func source(t testing.TB, opt scene.Options) *scene.Source {
	t.Helper()
	s, err := scene.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLook writes a sheet of scenes to the folder SCENE_OUT for inspection.
func TestLook(t *testing.T) {
	dir := os.Getenv("SCENE_OUT")
	if dir == "" {
		t.Skip("skipped: SCENE_OUT is not set")
	}
	for _, split := range []string{scene.Train, scene.Held} {
		for _, kind := range scene.AllKinds() {
			s := source(t, scene.Options{Split: split, Kinds: []string{kind}})
			const n = 5
			sheet := image.NewNRGBA(image.Rect(0, 0, n*132, n*132))
			for i := range n * n {
				sc := s.Make(i)
				for y := range sc.H {
					for x := range sc.W {
						o := sheet.PixOffset(i%n*132+x, i/n*132+y)
						copy(sheet.Pix[o:], sc.RGB[3*(y*sc.W+x):][:3])
						sheet.Pix[o+3] = 255
					}
				}
				t.Log(i, sc.Caption, "|", sc.Draw, sc.Questions)
			}
			var b bytes.Buffer
			if err := png.Encode(&b, sheet); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, kind+"-"+split+".png"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A scene is a function of the options and its number, for concurrent use in
// any order.
func TestPure(t *testing.T) {
	t.Parallel()
	a, b := source(t, scene.Options{Seed: 7}), source(t, scene.Options{Seed: 7})
	want := make([][]byte, 64)
	for i := range want {
		want[i] = a.Make(i).RGB
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range want {
				i = (i*5 + g*17) % len(want)
				if !bytes.Equal(b.Make(i).RGB, want[i]) {
					t.Errorf("scene %d differs", i)
				}
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, opt := range []scene.Options{{Seed: 7}, {Seed: 8}, {Seed: 7, Split: scene.Held}} {
		s := source(t, opt)
		for i := range 64 {
			seen[string(s.Make(i).RGB)] = true
		}
	}
	if len(seen) != 3*64 {
		t.Errorf("%d of %d scenes differ", len(seen), 3*64)
	}
}

func TestOptions(t *testing.T) {
	for _, bad := range []scene.Options{
		{Split: "test"}, {Size: scene.MinSize - 1}, {Size: scene.MaxSize + 1}, {Frames: scene.MinFrames - 1}, {Frames: scene.MaxFrames + 1}, {Size: -1}, {Kinds: []string{"shape"}}, {Kinds: []string{"shapes:0"}},
		{Kinds: []string{"shapes:x"}}, {Kinds: []string{"shapes:9999999"}}, {Kinds: []string{""}},
	} {
		if _, err := scene.New(bad); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
	for _, good := range []scene.Options{{Size: scene.MinSize}, {Size: scene.MaxSize}, {Frames: scene.MinFrames}, {Frames: scene.MaxFrames}} {
		if _, err := scene.New(good); err != nil {
			t.Error(err)
		}
	}
	_, err := scene.New(scene.Options{Split: "x", Size: 1, Kinds: []string{"y"}})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("want three faults: %v", err)
	}
}

func BenchmarkMake(b *testing.B) {
	for _, kind := range scene.AllKinds() {
		b.Run(kind, func(b *testing.B) {
			s := source(b, scene.Options{Kinds: []string{kind}})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Make(i)
			}
		})
	}
}

// Shapes are separate from each other and from the image's edge, and in their
// place.
func TestApart(t *testing.T) {
	t.Parallel()
	for _, size := range []int{64, 128} {
		s := source(t, scene.Options{Kinds: []string{scene.Shapes}, Size: size})
		for i := range 400 {
			shapes := s.Make(i).Truth.Shapes
			for k, a := range shapes {
				if a.X < a.R || a.Y < a.R || a.X+a.R >= size || a.Y+a.R >= size {
					t.Errorf("size %d, %d: %+v touches the edge", size, i, a)
				}
				if at := scene.Places()[a.Y*3/size*3+a.X*3/size]; at != a.Place {
					t.Errorf("size %d, %d: %+v is at the %s", size, i, a, at)
				}
				for _, b := range shapes[:k] {
					if d := a.R + b.R + size/128; (a.X-b.X)*(a.X-b.X)+(a.Y-b.Y)*(a.Y-b.Y) < d*d {
						t.Errorf("size %d, %d: %+v touches %+v", size, i, a, b)
					}
				}
			}
		}
	}
}

// The two splits draw different numbers: their scenes have no more in common
// than those of two seeds.
func TestStreams(t *testing.T) {
	t.Parallel()
	a, b := source(t, scene.Options{Size: 64}), source(t, scene.Options{Size: 64, Split: scene.Held})
	same := 0
	for i := range 500 {
		if x, y := a.Make(i), b.Make(i); x.Kind == y.Kind {
			same++
		}
	}
	if same > 500/5*3/2 {
		t.Errorf("%d of 500 scenes are of the same kind in both splits", same)
	}
}

// The shapes measured in the frames of a video move like the truth.
func TestMotions(t *testing.T) {
	t.Parallel()
	s := source(t, scene.Options{Kinds: []string{scene.Video}, Plain: true, Frames: 4})
	motions := map[string]int{}
	for i := range 80 {
		sc := s.Make(i)
		var seen []*scene.Measured
		for _, f := range sc.Frames {
			found := scene.Measure(f, sc.W, sc.H).Shapes
			if len(found) > 1 {
				t.Fatalf("%d: %+v", i, found)
			}
			seen = append(seen, nil)
			if len(found) == 1 {
				seen[len(seen)-1] = &found[0]
			}
		}
		if got := moves(seen); got != sc.Truth.Motion {
			t.Errorf("%d: measured %q, want %q", i, got, sc.Truth.Motion)
		}
		if first, want := seen[0], sc.Truth.Shapes[0]; first.Shape.Shape != want.Shape || first.Colour != want.Colour || first.Place != want.Place {
			t.Errorf("%d: %+v, want %+v", i, first, want)
		}
		motions[sc.Truth.Motion]++
	}
	if len(motions) != len(scene.Motions()) {
		t.Errorf("motions %v", motions)
	}
}

// moves returns the motion of a figure from the first frame to the last.
func moves(seen []*scene.Measured) string {
	for _, m := range seen {
		if m == nil {
			return "it blinks"
		}
	}
	a, b := seen[0], seen[len(seen)-1]
	switch {
	case a.Colour != b.Colour:
		return "it changes color"
	case b.R-a.R > 5:
		return "it grows"
	case a.R-b.R > 5:
		return "it shrinks"
	case a.X-b.X > 20:
		return "it moves left"
	case b.X-a.X > 20:
		return "it moves right"
	case a.Y-b.Y > 20:
		return "it moves up"
	case b.Y-a.Y > 20:
		return "it moves down"
	}
	return "it rests"
}

// Small makes training texts smaller and changes nothing else.
func TestSmall(t *testing.T) {
	t.Parallel()
	spread := func(split, kind string, small bool) (sum int, rgb []byte) {
		s := source(t, scene.Options{Split: split, Kinds: []string{kind}, Small: small, Seed: 3, Size: 64})
		for i := range 200 {
			sc := s.Make(i)
			lo, hi := sc.H, 0
			for _, m := range sc.Marks {
				lo, hi = min(lo, m.Y), max(hi, m.Y)
			}
			rgb = append(rgb, sc.RGB...)
			sum += max(hi-lo, 0)
			if len(sc.Marks) > 1 {
				sum += max(sc.Marks[1].X-sc.Marks[0].X, sc.Marks[0].X-sc.Marks[1].X)
			}
		}
		return sum, rgb
	}
	for _, kind := range []string{scene.Words, scene.Digits} {
		plain, _ := spread(scene.Train, kind, false)
		small, _ := spread(scene.Train, kind, true)
		if 10*small > 8*plain {
			t.Errorf("%s: letter distance %d, %d without Small", kind, small, plain)
		}
	}
	for _, c := range [][2]string{{scene.Held, scene.Words}, {scene.Held, scene.Digits}, {scene.Train, scene.Shapes}, {scene.Train, scene.Charts}} {
		_, a := spread(c[0], c[1], false)
		if _, b := spread(c[0], c[1], true); !bytes.Equal(a, b) {
			t.Errorf("%s of %s changed", c[1], c[0])
		}
	}
}
