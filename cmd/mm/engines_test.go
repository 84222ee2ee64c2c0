package main

import (
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/train/dataset/scene"
)

// draw writes a picture whose colours go from corner to corner, from a corner
// of red, green and blue.
func draw(path string, red, green, blue uint8) error {
	m := image.NewNRGBA(image.Rect(0, 0, 96, 64))
	for y := range 64 {
		for x := range 96 {
			m.Set(x, y, color.NRGBA{red + uint8(2*x), green + uint8(3*y), blue + uint8(x*y), 255})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return png.Encode(f, m)
}

// painted writes a scene as a PNG file.
func painted(path string, s scene.Scene) error {
	m := image.NewNRGBA(image.Rect(0, 0, s.W, s.H))
	for i := range s.W * s.H {
		m.Set(i%s.W, i/s.W, color.NRGBA{s.RGB[3*i], s.RGB[3*i+1], s.RGB[3*i+2], 255})
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, m), f.Close())
}

// p-lite answers to a picture with the same words whichever engines run its
// parts, and with others to another picture.
func TestPictureOnEveryEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: the reference build on every engine")
	}
	home := t.TempDir()
	t.Setenv("MM_HOME", home)
	pictures := map[string]string{}
	src, err := scene.New(scene.Options{Kinds: []string{scene.Shapes}, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b"} { // as the encoder knows them
		pictures[name] = filepath.Join(t.TempDir(), name+".png")
		if err := painted(pictures[name], src.Make(i)); err != nil {
			t.Fatal(err)
		}
	}
	// Weights and keys of 16 bits: with fewer, engines round on their own.
	ask := func(t *testing.T, picture string, backends ...string) runner.Report {
		t.Helper()
		args := []string{"run", "../../builds/p-lite.graph.yaml", "--target", "workstation", "--prompt", "Once upon a time", "--image", picture, "--max-tokens", "40", "--json"}
		for _, b := range backends {
			args = append(args, "--backend", b)
		}
		stdout, stderr, code := mm(t, args...)
		var got runner.Report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
			t.Fatalf("exit %d: %s%v", code, stderr, err)
		}
		return got
	}
	want := map[string]runner.Report{}
	for name, path := range pictures {
		want[name] = ask(t, path)
	}
	asked := asRequest(t, pictures["a"])
	if d := cmp.Diff(words(want["a"]), words(asked)); d != "" {
		t.Errorf("as a request (-flags +request):\n%s", d)
	}
	if words(want["a"]) == words(want["b"]) || len(want["a"].Tokens) == 0 {
		t.Errorf("two pictures, one answer: %q", words(want["a"]))
	}
	runtimetest.Program(t)
	for _, c := range []struct {
		name, core, function string
		needs                []string
	}{
		{"core and onnxruntime", "core", "onnxruntime", []string{native.ONNXRuntime}},
		{"llamacpp and onnx", "llamacpp", "onnx", []string{native.LlamaCPP}},
		{"llamacpp and onnxruntime", "gguf", "onnxruntime", []string{native.ONNXRuntime, native.LlamaCPP}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range c.needs {
				if _, err := native.Install(t.Context(), native.Options{Home: home, Name: name, From: runtimetest.Libraries(t, name)}); err != nil {
					t.Fatal(err)
				}
			}
			for name, path := range pictures {
				got := ask(t, path, c.core, "vision-enc="+c.function, "vision-proj="+c.function)
				if d := cmp.Diff(words(want[name]), words(got)); d != "" {
					t.Errorf("picture %s (-core and onnx, +%s):\n%s", name, c.name, d)
				}
				if got.Backends[1].Engine != c.function || got.Backends[2].Engine != c.function || got.Backends[0].Engine == "core" != (c.core == "core") {
					t.Errorf("ran on %v", got.Backends)
				}
			}
		})
	}
}

// words returns the text of the model, withheld or not: engines without states have no
// confidence.
func words(r runner.Report) string {
	if r.Withheld != "" {
		return r.Withheld
	}
	return r.Text
}

// A picture unlike those of the training is not answered; a picture like them is.
func TestUnfamiliarPicture(t *testing.T) {
	t.Setenv("MM_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "odd.png")
	if err := draw(path, 0, 90, 200); err != nil {
		t.Fatal(err)
	}
	for picture, familiar := range map[string]bool{"../../catalog/vision-proj/chart.png": true, path: false} {
		stdout, stderr, code := mm(t, "run", "../../builds/p-lite.graph.yaml", "--target", "laptop", "what is in the picture?", "--image", picture, "--json")
		var got runner.Report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || got.Confidence == nil {
			t.Fatalf("exit %d: %s%s%v", code, stdout, stderr, err)
		}
		if p := *got.Confidence; familiar != (p >= 0.5) || familiar != (got.Withheld == "") || familiar != (got.Text != runner.CannotTell) {
			t.Errorf("%s: %v, %q, withheld %q", picture, p, got.Text, got.Withheld)
		}
		if !familiar {
			if stdout, stderr, _ := mm(t, "run", "../../builds/p-lite.graph.yaml", "--target", "laptop", "what is in the picture?", "--image", picture); strings.TrimSpace(stdout) != "I cannot tell" || !strings.Contains(stderr, "withheld") {
				t.Errorf("printed %q, %q", stdout, stderr)
			}
		}
	}
}

// asRequest asks the same with a request that holds the picture's bytes.
func asRequest(t *testing.T, picture string) runner.Report {
	t.Helper()
	data, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	req, err := json.Marshal(map[string]any{
		"inputs":      []any{map[string]any{"type": "text", "text": "Once upon a time"}, map[string]any{"type": "image", "data": data}},
		"preferences": map[string]any{"max_tokens": 40},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, req, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := mm(t, "run", "../../builds/p-lite.graph.yaml", "--target", "workstation", "--request", file, "--json")
	var got runner.Report
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
		t.Fatalf("exit %d: %s%v", code, stderr, err)
	}
	return got
}
