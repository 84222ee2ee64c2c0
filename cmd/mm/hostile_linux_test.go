package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// What a run with a damaged input may take: a build of ours in memory and one
// picture of 64 million pixels with four channels of 16 bits; and far more time
// than that takes.
const (
	hostileKiB  = 2 << 20
	hostileTime = 60 * time.Second
)

// hostileGraph has an encoder for pictures, which films go through as well, and
// one for sounds.
const hostileGraph = `name: media
version: 0.1.0
core:
  llm: {ref: core-llm, d_model: 256}
modalities:
  - enc: {ref: vision-enc}
    proj: {ref: vision-proj, T_cap: 64, out_dim: 256}
  - enc: {ref: audio-enc}
    proj: {ref: audio-proj, T_cap: 16, out_dim: 256}
exports:
  here:
    gguf: {quant: int4}
    onnx: [vision-enc, vision-proj, audio-enc, audio-proj]
`

// hostileInputs are whole pictures, films and sounds by the flags that they are
// given with.
func hostileInputs(t *testing.T) map[string][][]byte {
	t.Helper()
	read := func(v any, elem ...string) {
		data, err := os.ReadFile(filepath.Join(append([]string{testfiles.Root(t), "core", "preprocess"}, elem...)...))
		if err == nil {
			err = json.Unmarshal(data, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type file struct{ File []byte }
	var still struct{ Pictures []file }
	var moving struct{ Animations []file }
	var sounds struct{ Sounds []file }
	read(&still, "testdata", "goldens.json")
	read(&moving, "testdata", "moving.json")
	read(&sounds, "codec", "testdata", "sounds.json")
	all := map[string][][]byte{}
	for flag, files := range map[string][]file{
		"--image": still.Pictures, "--audio": sounds.Sounds, "--video": moving.Animations,
	} {
		formats := map[string]int{}
		for _, f := range files { // a few of each format
			if magic := string(f.File[:3]); formats[magic] < 3 {
				formats[magic]++
				all[flag] = append(all[flag], f.File)
			}
		}
	}
	wave := &preprocess.Wave{Rate: 16000, Samples: make([]float32, 8000)}
	for i := range wave.Samples {
		wave.Samples[i] = float32(i%50)/50 - 0.5
	}
	all["--audio"] = append(all["--audio"], preprocess.EncodeWAV(wave))
	y4m := append([]byte("YUV4MPEG2 W4 H4 F25:1 C420\nFRAME\n"), bytes.Repeat([]byte{90}, 24)...)
	all["--video"] = append(all["--video"], y4m)
	return all
}

// child runs mm in a process of its own: this very program.
func child(t *testing.T, args ...string) (stderr string, state *os.ProcessState) {
	t.Helper()
	self, err := exec.LookPath("mm") // testscript's, which is this test program
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return errs.String(), cmd.ProcessState
}

// Whatever file is given to mm run as a picture, a film or a sound, it answers,
// or says in an error what is wrong with the file; it never crashes, hangs or
// takes memory without bound (make hostile-media: a thousand files).
func TestHostileMedia(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	dir := t.TempDir()
	t.Setenv("MM_HOME", filepath.Join(dir, "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	graph := filepath.Join(dir, "media.graph.yaml")
	for name, text := range map[string]string{
		graph:                         hostileGraph,
		filepath.Join(dir, "mm.yaml"): fmt.Sprintf("modules: [%q]\n", filepath.Join(testfiles.Root(t), "catalog")),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"keys", "generate", "--unencrypted"}, {"assemble", graph, "--sign", "default"}} {
		if _, stderr, code := mm(t, args...); code != exitOK {
			t.Fatalf("mm %v: exit %d: %s", args, code, stderr)
		}
	}
	inputs := hostileInputs(t)
	flags := slices.Sorted(maps.Keys(inputs))
	path := filepath.Join(dir, "input")
	run := func(flag string, data []byte) (stderr string, state *os.ProcessState) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return child(t, "run", "media:0.1.0", flag, path, "--prompt", "what is it?", "--max-tokens", "1")
	}
	for _, flag := range flags {
		if stderr, state := run(flag, inputs[flag][0]); state.ExitCode() != exitOK {
			t.Fatalf("%s, undamaged: %v: %s", flag, state, stderr)
		}
	}
	odd := oddMedia()
	names := slices.Sorted(maps.Keys(odd))
	n := len(names) + len(flags)
	if os.Getenv("MM_HOSTILE") != "" {
		n = 4 * runtimetest.Hostile(t)
	}
	counts := map[string]map[int]int{}
	most, slowest := int64(0), time.Duration(0)
	for i := range n {
		// With enough runs each odd file is given with every flag.
		flag, data, what := flags[(i+2*(i/len(names)))%len(flags)], odd[names[i%len(names)]], names[i%len(names)]
		if i >= len(names)*len(flags) || i >= len(names) && n < len(names)*len(flags) {
			from := inputs[flag][i/len(flags)%len(inputs[flag])]
			data, what = runtimetest.Damage(from, uint64(i)), fmt.Sprintf("file %d", i)
		}
		what = flag + ", " + what
		begin := time.Now()
		stderr, state := run(flag, data)
		slowest = max(slowest, time.Since(begin))
		if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
			if most = max(most, usage.Maxrss); usage.Maxrss > hostileKiB {
				t.Errorf("%s: %d KiB", what, usage.Maxrss)
			}
		}
		if counts[flag] == nil {
			counts[flag] = map[int]int{}
		}
		counts[flag][state.ExitCode()]++
		if n < 100 {
			t.Logf("%-28s %s", what, strings.TrimSpace(stderr))
		}
		clear := strings.HasPrefix(stderr, "mm: error: ") && len(stderr) < 1000
		switch code := state.ExitCode(); {
		case code == exitOK:
		case code == diag.ExitFailure && clear && !strings.Contains(stderr, "goroutine "):
		default:
			t.Errorf("%s: %v: %s", what, state, stderr)
		}
	}
	for _, flag := range flags {
		c := counts[flag]
		t.Logf("%s: %d files answered, %d refused with a reason", flag, c[exitOK], c[diag.ExitFailure])
	}
	t.Logf("%d runs, none crashed; the slowest took %v, the largest %d MiB", n, slowest.Round(time.Millisecond), most>>10)
}

// oddMedia are inputs that are wrong in ways of their own.
func oddMedia() map[string][]byte {
	head := []byte("IHDR\x00\x00\x27\x10\x00\x00\x27\x11\x08\x02\x00\x00\x00")
	return map[string][]byte{
		"empty":             {},
		"text":              []byte("Once upon a time, there was no picture.\n"),
		"a header alone":    []byte("\x89PNG\r\n\x1a\n"),
		"zeros":             make([]byte, 1<<20),
		"a sound of zero":   preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000}),
		"a sound of one":    preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: []float32{0.5}}),
		"100 megapixels":    binary.BigEndian.AppendUint32(append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...), crc32.ChecksumIEEE(head)),
		"frames of nothing": []byte("YUV4MPEG2 W10000 H10001 C420\nFRAME\n"),
	}
}
