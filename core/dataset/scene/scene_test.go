package scene_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/core/dataset/scene"
)

func source(t testing.TB, opt scene.Options) *scene.Source {
	t.Helper()
	s, err := scene.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLook writes a sheet of scenes to a folder, for eyes (SCENE_OUT=DIR).
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

// A scene follows from the options and its number, whoever asks and in
// whatever order.
func TestPure(t *testing.T) {
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
		{Split: "test"}, {Size: 63}, {Size: 513}, {Size: -1}, {Kinds: []string{"shape"}}, {Kinds: []string{"shapes:0"}},
		{Kinds: []string{"shapes:x"}}, {Kinds: []string{"shapes:9999999"}}, {Kinds: []string{""}},
	} {
		if _, err := scene.New(bad); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
	_, err := scene.New(scene.Options{Split: "x", Size: 1, Kinds: []string{"y"}})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("three faults: %v", err)
	}
}

// Each answer about shapes is what the truth says.
func TestShapes(t *testing.T) {
	for _, split := range []string{scene.Train, scene.Held} {
		s := source(t, scene.Options{Split: split, Kinds: []string{scene.Shapes}})
		for i := range 300 {
			sc := s.Make(i)
			for _, q := range sc.Questions {
				if want := answer(sc.Truth.Shapes, q); want != q.Answer {
					t.Errorf("%s scene %d: %s %q: %q, want %q", split, i, q.Kind, q.Ask, q.Answer, want)
				}
			}
		}
	}
}

// answer works a question about shapes out again, from its words.
func answer(shapes []scene.Shape, q scene.Pair) string {
	var found []scene.Shape
	for _, s := range shapes {
		fits := true
		for _, c := range scene.Colours() {
			fits = fits && (!strings.Contains(q.Ask, " "+c) || s.Colour == c)
		}
		for _, n := range scene.ShapeNames() {
			fits = fits && (!strings.Contains(q.Ask, " "+n) || s.Shape == n)
		}
		if fits {
			found = append(found, s)
		}
	}
	one := func(f func(scene.Shape) string) string {
		if len(found) != 1 {
			return "in doubt"
		}
		return f(found[0])
	}
	switch q.Kind {
	case scene.AskCaption:
		var parts []string
		for _, s := range shapes {
			a := "a "
			if s.Colour == "orange" {
				a = "an "
			}
			parts = append(parts, a+s.Colour+" "+s.Shape)
		}
		all := strings.Join(parts, ", ")
		if i := strings.LastIndex(all, ", "); i >= 0 {
			all = all[:i] + " and " + all[i+2:]
		}
		return all
	case scene.AskCount:
		return strconv.Itoa(len(shapes))
	case scene.AskThere:
		if len(found) > 0 {
			return "yes"
		}
		return "no"
	case scene.AskShape:
		return one(func(s scene.Shape) string { return s.Shape })
	case scene.AskColour:
		return one(func(s scene.Shape) string { return s.Colour })
	case scene.AskPlace:
		return one(func(s scene.Shape) string { return s.Place })
	case scene.AskSize:
		return one(func(s scene.Shape) string { return s.Size })
	}
	return "no such kind"
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
