package scene_test

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

var update = flag.Bool("update", false, "write the golden files")

// The bytes of scenes, and the results of Measure, are the same on every
// processor (make arm64 runs this under qemu) and in every version: a module's
// recipe identifies scenes only by options.
func TestGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, split := range []string{scene.Train, scene.Held} {
		for _, kind := range scene.AllKinds() {
			for _, opt := range []scene.Options{{}, {Plain: true}, {Size: 200, Seed: 5, Frames: 3}, {Size: scene.MaxSize, Frames: 2}} {
				opt.Split, opt.Kinds = split, []string{kind}
				s, h := source(t, opt), sha256.New()
				n := 12
				if opt.Size == scene.MaxSize {
					n = 1
				}
				for i := range n {
					sc := s.Make(i)
					words, err := json.Marshal([]any{sc.Caption, sc.Questions, sc.Draw, sc.Truth})
					if err != nil {
						t.Fatal(err)
					}
					h.Write(sc.RGB)
					for _, f := range sc.Frames {
						h.Write(f)
					}
					h.Write(words)
					if kind == scene.Shapes {
						fmt.Fprint(h, scene.Measure(sc.RGB, sc.W, sc.H))
					}
				}
				fmt.Fprintf(&b, "%s %s size %d plain %t seed %d: %x\n", split, kind, opt.Size, opt.Plain, opt.Seed, h.Sum(nil)[:12])
			}
		}
	}
	path := filepath.Join("testdata", "golden.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("scenes differ from %s (-update after an intended change):\n%s", path, got)
	}
}
