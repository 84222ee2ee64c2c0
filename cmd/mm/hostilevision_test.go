package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHostileVision runs damaged folders, settings and mmproj files of language models
// that take pictures or sounds: each is refused with a reason, or runs, within bounds of memory and time.
// MM_HOSTILE sets how many.
func TestHostileVision(t *testing.T) {
	n := 40
	if v, err := strconv.Atoi(os.Getenv("MM_HOSTILE")); err == nil {
		n = v
	}
	families, err := filepath.Glob("testdata/vision/*/cases.json")
	if err != nil || len(families) < 4 {
		t.Fatal(families, err)
	}
	t.Setenv("MM_HOME", t.TempDir())
	counts := map[int]int{}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		from := filepath.Dir(families[i%len(families)])
		dir := filepath.Join(t.TempDir(), "m")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		what := damage(t, dir, rng)
		input := []string{"--image", filepath.Join(dir, "picture4-0.png")}
		if _, err := os.Stat(input[1]); err != nil {
			input = []string{"--audio", filepath.Join(dir, "sound1-0.wav")}
		}
		args := append(append([]string{"run", dir, "--max-tokens", "2", "--temperature", "0", "--timeout", "20s"}, input...), "What?")
		if what == "stranger-mmproj.gguf" {
			core := filepath.Join(t.TempDir(), "core")
			must(t, "module", "import", "hf", from, "--version", "1.0.0", "--license", "MIT", "--dir", core, "--name", "m")
			args = append([]string{"run", filepath.Join(core, "modules", "m-core", "m-core.gguf"), "--mmproj", filepath.Join(dir, what)}, args[2:]...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, stderr, code := mm(t, args...)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		counts[code]++
		if code != exitOK && strings.TrimSpace(stderr) == "" || strings.Contains(stderr, "panic") || strings.Contains(stderr, "runtime error") {
			t.Errorf("%d, %s of %s: exit %d, %q", i, what, from, code, stderr)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 2048 || took > 30*time.Second {
			t.Errorf("%d, %s of %s: %d MiB allocated in %v: %s", i, what, from, mib, took, stderr)
		}
	}
	t.Logf("%d damaged models: exit codes %v", n, counts)
}

// TestHostileJoint embeds a text and a picture with damaged folders of CLIP and SigLIP: each
// is refused with a reason, or runs, within bounds of memory.
func TestHostileJoint(t *testing.T) {
	n := 40
	if v, err := strconv.Atoi(os.Getenv("MM_HOSTILE")); err == nil {
		n = v
	}
	t.Setenv("MM_HOME", t.TempDir())
	counts := map[int]int{}
	root := filepath.Join("..", "..", "onnx", "sentence", "testdata", "joint")
	names := []string{"config.json", "config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "spiece.model", "spiece.model", "model.safetensors"}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		from := filepath.Join(root, []string{"clip", "siglip"}[i%2])
		dir := filepath.Join(t.TempDir(), "m")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		what := damageOne(t, dir, names, rng)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, stderr, code := mm(t, "embed", "--image", filepath.Join(root, "33x35.png"), dir, "a photo of a cat")
		runtime.ReadMemStats(&after)
		counts[code]++
		if code != exitOK && strings.TrimSpace(stderr) == "" || strings.Contains(stderr, "panic") || strings.Contains(stderr, "runtime error") {
			t.Errorf("%d, %s of %s: exit %d, %q", i, what, from, code, stderr)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 2048 {
			t.Errorf("%d, %s of %s: %d MiB allocated: %s", i, what, from, mib, stderr)
		}
	}
	if len(counts) < 2 {
		t.Errorf("%d damaged folders all have the exit code of one: %v", n, counts)
	}
	t.Logf("%d damaged folders: exit codes %v", n, counts)
}

// figures are the numbers of a JSON file.
var figures = regexp.MustCompile(`-?\b[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\b`)

// damage changes one file of a folder of vision and returns its name.
func damage(t *testing.T, dir string, rng *rand.Rand) string {
	return damageOne(t, dir, []string{"config.json", "config.json", "processor_config.json", "processor_config.json", "model.safetensors", "stranger-mmproj.gguf", "picture4-0.png", "sound1-0.wav", "preprocessor_config.json", "tokenizer.json", "chat_template.jinja"}, rng)
}

// damageOne changes one of the named files of a folder, or its config.json, and returns
// its name.
func damageOne(t *testing.T, dir string, names []string, rng *rand.Rand) string {
	t.Helper()
	name := names[rng.IntN(len(names))]
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) { // of another family
		name, path = "config.json", filepath.Join(dir, "config.json")
		data, err = os.ReadFile(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{"0", "-1", "1", "3", "65536", "1000000", "2147483647", "9223372036854775807", "1e308", "0.0001", "null", "[]", `"x"`, "{}", "true"}
	switch at := figures.FindAllIndex(data, -1); {
	case strings.HasSuffix(name, ".json") && len(at) > 0 && rng.IntN(6) > 0:
		if name == "tokenizer.json" {
			at = at[:min(len(at), 200)]
		}
		one := at[rng.IntN(len(at))]
		data = bytes.Join([][]byte{data[:one[0]], []byte(odd[rng.IntN(len(odd))]), data[one[1]:]}, nil)
	case rng.IntN(4) == 0:
		data = data[:rng.IntN(len(data)+1)]
	default:
		reach := len(data)
		if rng.IntN(2) == 0 {
			reach = min(reach, 4096)
		}
		for range 1 + rng.IntN(8) {
			data[rng.IntN(reach)] = byte(rng.Uint32())
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", name, err))
	}
	return name
}
