package engine_test

import (
	"bufio"

	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// peerVar makes the test binary speak the protocol of testdata/ort.py with this
// engine.
const peerVar = "MM_TEST_ONNX_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerVar) == "" {
		os.Exit(m.Run())
	}
	if err := peer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// peer answers requests line by line; see testdata/ort.py.
func peer(r io.Reader, w io.Writer) error {
	var p *engine.Program
	var in map[string]engine.Tensor
	ctx := context.Background()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		var answer any = "ok"
		switch f[0] {
		case "load":
			threads, err := strconv.Atoi(f[2])
			if err != nil {
				return err
			}
			m, err := onnx.Open(f[1])
			if err != nil {
				return err
			}
			if p, err = engine.Compile(ctx, m, engine.Options{Threads: threads}); err != nil {
				return err
			}
			if err := m.Close(); err != nil {
				return err
			}
		case "run":
			in = make(map[string]engine.Tensor)
			for i, v := range p.Inputs() {
				t, err := readNPY(filepath.Join(f[1], fmt.Sprintf("in%d.npy", i)))
				if err != nil {
					return err
				}
				in[v.Name] = t
			}
			start := time.Now()
			out, err := p.Run(ctx, in)
			if err != nil {
				return err
			}
			answer = time.Since(start).Nanoseconds()
			for i, name := range p.Outputs() {
				if err := os.WriteFile(filepath.Join(f[1], fmt.Sprintf("mine%d.npy", i)), npy(out[name]), 0o600); err != nil {
					return err
				}
			}
		default:
			n, err := strconv.Atoi(f[1])
			if err != nil {
				return err
			}
			took := make([]int64, n)
			for i := range took {
				start := time.Now()
				if _, err := p.Run(ctx, in); err != nil {
					return err
				}
				took[i] = time.Since(start).Nanoseconds()
			}
			slices.Sort(took)
			answer = fmt.Sprint(took[n/2], took[0])
		}
		if _, err := fmt.Fprintln(w, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// fetched returns the models of scripts/fetch-models.sh with their usual
// shapes.
func fetched(t testing.TB) []real {
	t.Helper()
	dir := os.Getenv("MM_MODELS_DIR")
	if dir == "" {
		t.Log("no MM_MODELS_DIR (scripts/fetch-models.sh fills one)")
		return nil
	}
	sr := engine.Tensor{Type: onnx.INT64, Shape: []int{}, Data: binary.LittleEndian.AppendUint64(nil, 16000)}
	return []real{
		{name: "vad v6", path: filepath.Join(dir, "vad", "silero_vad_v6.onnx"), in: map[string]engine.Tensor{
			"input": normal(0.1, 1, 576), "state": normal(0.1, 2, 1, 128), "sr": sr}},
		{name: "vad v5", path: filepath.Join(dir, "vad", "silero_vad_v5.onnx"), in: map[string]engine.Tensor{
			"input": normal(0.1, 1, 576), "state": normal(0.1, 2, 1, 128), "sr": sr}},
		{name: "vad legacy", path: filepath.Join(dir, "vad", "silero_vad_legacy.onnx"), in: map[string]engine.Tensor{
			"input": normal(0.1, 1, 512), "sr": sr, "h": normal(0.1, 2, 1, 64), "c": normal(0.1, 2, 1, 64)}},
		{name: "oww mel", path: filepath.Join(dir, "oww", "melspectrogram.onnx"), in: map[string]engine.Tensor{"input": normal(1000, 1, 17280)}},
		{name: "oww embedding", path: filepath.Join(dir, "oww", "embedding_model.onnx"), in: map[string]engine.Tensor{"input_1": normal(1, 1, 76, 32, 1)}},
		{name: "ppocr cls", path: filepath.Join(dir, "ocr", "ch_ppocr_mobile_v2.0_cls_infer.onnx"), in: map[string]engine.Tensor{"x": normal(1, 1, 3, 48, 192)}},
		{name: "ppocr rec", path: filepath.Join(dir, "ocr", "ch_PP-OCRv4_rec_infer.onnx"), in: map[string]engine.Tensor{"x": normal(1, 1, 3, 48, 320)}},
		{name: "ppocr det", path: filepath.Join(dir, "ocr", "ch_PP-OCRv4_det_infer.onnx"), in: map[string]engine.Tensor{"x": normal(1, 1, 3, 640, 640)}},
	}
}

// normal returns noise of the given deviation.
func normal(deviation float64, shape ...int) engine.Tensor {
	rng := rand.New(rand.NewPCG(7, uint64(len(shape))))
	n, _ := kernel.Count(shape)
	t := engine.Tensor{Type: onnx.FLOAT, Shape: shape}
	for range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(deviation*rng.NormFloat64())))
	}
	return t
}

// inputs returns the inputs of r, or noise.
func (r *real) inputs(t testing.TB) map[string]engine.Tensor {
	t.Helper()
	if r.in == nil {
		r.in = noise(load(t, r.path, 1))
	}
	return r.in
}

// shapes formats the shapes of the inputs of a run.
func (r *real) shapes(order []onnx.Value) string {
	var out []string
	for _, v := range order {
		out = append(out, strings.ReplaceAll(strings.Trim(fmt.Sprint(r.in[v.Name].Shape), "[]"), " ", "×"))
	}
	return strings.Join(out, ", ")
}

// side is one engine of a comparison.
type side struct {
	*ort
	cold    time.Duration // from the process's start to its first result
	medians []float64     // nanoseconds, one for each round
	fastest float64
	peak    int64 // bytes
}

// start runs a model once in a child process.
func (s *side) start(t *testing.T, cmd *exec.Cmd, path string, threads int, dir string) {
	t.Helper()
	start := time.Now()
	s.ort = startPeer(t, cmd)
	s.ask(t, "load %s %d", path, threads)
	s.ask(t, "run %s", dir)
	if d := time.Since(start); s.cold == 0 || d < s.cold {
		s.cold = d
	}
}

// round runs n times.
func (s *side) round(t *testing.T, n int) {
	t.Helper()
	var median, fastest float64
	if _, err := fmt.Sscan(s.ask(t, "time %d", n), &median, &fastest); err != nil {
		t.Fatal(err)
	}
	s.medians = append(s.medians, median)
	if s.fastest == 0 || fastest < s.fastest {
		s.fastest = fastest
	}
}

func (s *side) median() float64 {
	slices.Sort(s.medians)
	return s.medians[len(s.medians)/2]
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// resident returns the peak memory of a process; 0 if unknown.
func resident(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := highWater.FindSubmatch(b)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10
}

// TestCompare is `make bench-onnx`: it compares this engine with ONNX Runtime,
// each in a separate process, in alternating rounds, and prints a Markdown
// table. MM_BENCH_ONNX is a regular expression of the models to measure; "."
// excludes the large nets of ONNX_SUITE, which "light" selects.
func TestCompare(t *testing.T) {
	pattern := os.Getenv("MM_BENCH_ONNX")
	if pattern == "" {
		t.Skip("skipped: MM_BENCH_ONNX is not set (make bench-onnx sets it)")
	}
	models, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	threads := []int{1, 2}
	if v := os.Getenv("MM_BENCH_THREADS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		threads = []int{n}
	}
	rounds := 15
	if v := os.Getenv("MM_BENCH_ROUNDS"); v != "" {
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	python := testfiles.Python(t, "onnxruntime", "numpy")
	fmt.Println("| model | input | threads | ORT ms | mm ms | ratio | fastest: ORT | mm | ratio | memory MB: ORT | mm | cold start ms: ORT | mm |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range append(reals(t), fetched(t)...) {
		if !models.MatchString(r.name) || pattern == "." && strings.HasPrefix(r.name, "light_") {
			continue
		}
		for _, n := range threads {
			r.compare(t, python, n, rounds)
		}
	}
}

// compare prints a row of the table.
func (r *real) compare(t *testing.T, python string, threads, rounds int) {
	t.Helper()
	dir, in := t.TempDir(), r.inputs(t)
	m, err := onnx.Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	order := m.Inputs()
	defer func() { _ = m.Close() }()
	for i, v := range order {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("in%d.npy", i)), npy(in[v.Name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var theirs, mine side
	commands := []func() *exec.Cmd{
		func() *exec.Cmd { return exec.Command(python, filepath.Join("testdata", "ort.py")) },
		func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), peerVar+"=1")
			return cmd
		},
	}
	sides := []*side{&theirs, &mine}
	for k := range 3 { // the last pair is kept for the rounds
		for i, s := range sides {
			if k > 0 {
				s.close()
			}
			s.start(t, commands[i](), r.path, threads, dir)
		}
	}
	for i := range m.Graph.Outputs {
		a, err := readNPY(filepath.Join(dir, fmt.Sprintf("mine%d.npy", i)))
		if err != nil {
			t.Fatal(err)
		}
		x, y := values(a), values(engine.Tensor{Type: a.Type, Data: data(t, filepath.Join(dir, fmt.Sprintf("out%d.npy", i)))})
		if len(x) != len(y) || !(cosine(x, y) >= 0.9999) {
			t.Errorf("%s: output %d: got %d elements, want %d of ONNX Runtime", r.name, i, len(y), len(x))
		}
	}
	for _, s := range sides { // the number of runs in a round of 30 ms
		s.round(t, 3)
	}
	n := int(min(max(30e6/max(theirs.fastest, mine.fastest), 1), 1000))
	theirs, mine = side{ort: theirs.ort, cold: theirs.cold}, side{ort: mine.ort, cold: mine.cold}
	for range rounds {
		for _, s := range sides {
			time.Sleep(5 * time.Millisecond) // threads spin on after their work
			s.round(t, n)
		}
	}
	for _, s := range sides {
		s.peak = resident(s.cmd.Process.Pid)
		s.close()
	}
	a, b := theirs.median(), mine.median()
	fmt.Printf("| %s | %s | %d | %.3f | %.3f | %.2f | %.3f | %.3f | %.2f | %.1f | %.1f | %.0f | %.0f |\n", r.name, r.shapes(order), threads,
		a/1e6, b/1e6, b/a, theirs.fastest/1e6, mine.fastest/1e6, mine.fastest/theirs.fastest,
		float64(theirs.peak)/1e6, float64(mine.peak)/1e6, float64(theirs.cold)/1e6, float64(mine.cold)/1e6)
}
