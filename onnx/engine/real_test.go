package engine_test

import (
	"bufio"
	"bytes"
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

// ort is ONNX Runtime in a Python process, or another process with the same
// protocol.
type ort struct {
	in  io.Writer
	out *bufio.Reader
	cmd *exec.Cmd
}

func startORT(t *testing.T) *ort {
	t.Helper()
	return startPeer(t, exec.Command(testfiles.Python(t, "onnxruntime", "numpy"), filepath.Join("testdata", "ort.py")))
}

// startPeer starts a process that answers requests line by line. It ends with
// the test, or by close.
func startPeer(t *testing.T, cmd *exec.Cmd) *ort {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &ort{in, bufio.NewReader(out), cmd}
	t.Cleanup(o.close)
	return o
}

// close ends the process. A second close does nothing.
func (o *ort) close() {
	_ = o.in.(io.Closer).Close()
	_ = o.cmd.Wait()
}

func (o *ort) ask(t *testing.T, format string, args ...any) string {
	t.Helper()
	fmt.Fprintf(o.in, format+"\n", args...)
	line, err := o.out.ReadString('\n')
	if err != nil {
		t.Fatalf("ONNX Runtime: %v", err)
	}
	return strings.TrimSpace(line)
}

// descrs maps types to NumPy's names.
var descrs = map[onnx.DType]string{onnx.FLOAT: "<f4", onnx.UINT8: "|u1", onnx.INT64: "<i8", onnx.FLOAT16: "<f2"}

// npy encodes a float32 tensor as an .npy file.
func npy(t engine.Tensor) []byte {
	dims := ""
	for _, d := range t.Shape {
		dims += fmt.Sprintf("%d,", d)
	}
	descr := descrs[t.Type]
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), binary.LittleEndian.AppendUint16(nil, uint16(len(head)))...)
	return append(append(out, head...), t.Data...)
}

// data returns the elements of an .npy file.
func data(t *testing.T, path string) []byte {
	t.Helper()
	a, err := readNPY(path)
	if err != nil {
		t.Fatal(err)
	}
	return a.Data
}

var (
	npyShape = regexp.MustCompile(`'shape': \(([^)]*)\)`)
	npyDescr = regexp.MustCompile(`'descr': '([^']*)'`)
)

// readNPY reads an .npy file.
func readNPY(path string) (t engine.Tensor, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return t, err
	}
	end := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	for kind, name := range descrs {
		if name == string(npyDescr.FindSubmatch(b[:end])[1]) {
			t.Type = kind
		}
	}
	t.Shape, t.Data = []int{}, b[end:]
	for _, d := range strings.Split(string(npyShape.FindSubmatch(b[:end])[1]), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		n, err := strconv.Atoi(d)
		if err != nil {
			return t, err
		}
		t.Shape = append(t.Shape, n)
	}
	return t, nil
}

// real is a model, with inputs unless noise suffices.
type real struct {
	name, path string
	in         map[string]engine.Tensor
}

// reals returns the available models: two public ones, those of the reference
// modules and, with ONNX_SUITE, the well-known nets of its category light.
func reals(t testing.TB) []real {
	t.Helper()
	shared := testfiles.Shared(t, "onnx")
	out := []real{{"mnist", filepath.Join(shared, "mnist.onnx"), nil}, {"squeezenet", trimmed(t, filepath.Join(shared, "squeezenet_tensor_input.onnx")), nil}}
	modules, err := filepath.Glob(filepath.Join(testfiles.Root(t), "catalog", "*", "*.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range modules {
		out = append(out, real{strings.TrimSuffix(filepath.Base(path), ".onnx"), path, nil})
	}
	light, _ := filepath.Glob(filepath.Join(os.Getenv("ONNX_SUITE"), "light", "*.onnx"))
	for _, path := range light {
		out = append(out, real{strings.TrimSuffix(filepath.Base(path), ".onnx"), path, nil})
	}
	return out
}

// trimmed removes operators that ONNX does not define from either end of a
// model.
func trimmed(t testing.TB, path string) string {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	end := ""
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if n.Op == "ImageScaler" {
			n.Op, n.Attributes = "Identity", nil
		}
		if n.Op == "Gemm" {
			end = n.Outputs[0]
		}
	}
	cut, err := m.Cut(end)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := onnx.Write(&b, cut); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

// noise fills the inputs of a model.
func noise(p *engine.Program) map[string]engine.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	in := make(map[string]engine.Tensor)
	for _, v := range p.Inputs() {
		shape := make([]int, len(v.Type.Dims))
		for i, d := range v.Type.Dims {
			shape[i] = int(d.Value)
			if d.Param != "" || d.Value < 0 {
				shape[i] = map[string]int{"T_enc": 64, "T_dec": 64, "S": 16000, "H": 224, "W": 224}[d.Param]
				if shape[i] == 0 {
					shape[i] = 1
				}
			}
		}
		n, _ := kernel.Count(shape)
		t := engine.Tensor{Type: v.Type.DType, Shape: shape}
		for range n {
			switch t.Type {
			case onnx.FLOAT:
				t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(rng.NormFloat64())))
			default:
				t.Data = append(t.Data, make([]byte, kernel.Size(t.Type))...)
				t.Data[len(t.Data)-kernel.Size(t.Type)] = byte(rng.IntN(100))
			}
		}
		in[v.Name] = t
	}
	return in
}

func load(t testing.TB, path string, threads int) *engine.Program {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: threads})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// The results of real models equal those of ONNX Runtime, for any number of
// threads. If MM_TEST_LATENCY is set, the times of both are printed: medians of
// alternating runs.
func TestAgainstONNXRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: every case on a second engine")
	}
	o := startORT(t)
	if os.Getenv("MM_TEST_LATENCY") != "" {
		t.Logf("%-22s %8s %8s %8s %6s %9s", "model", "threads", "here ms", "ORT ms", "ratio", "peak MB")
	}
	for _, r := range append(reals(t), fetched(t)...) {
		var first map[string]engine.Tensor
		for _, threads := range []int{1, 2} {
			p := load(t, r.path, threads)
			in := r.inputs(t)
			out, err := p.Run(t.Context(), in)
			if err != nil {
				t.Fatalf("%s: %v", r.name, err)
			}
			if first == nil {
				first = out
			}
			for _, name := range p.Outputs() {
				if !bytes.Equal(out[name].Data, first[name].Data) {
					t.Errorf("%s: %d threads change %s", r.name, threads, name)
				}
			}
			o.against(t, p, r, in, out, threads)
		}
	}
}

// against compares one run, and times several.
func (o *ort) against(t *testing.T, p *engine.Program, r real, in, out map[string]engine.Tensor, threads int) {
	t.Helper()
	dir := t.TempDir()
	for i, v := range p.Inputs() {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("in%d.npy", i)), npy(in[v.Name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o.ask(t, "load %s %d", r.path, threads)
	o.ask(t, "run %s", dir)
	for i, name := range p.Outputs() {
		want := data(t, filepath.Join(dir, fmt.Sprintf("out%d.npy", i)))
		a, b := values(out[name]), values(engine.Tensor{Type: out[name].Type, Data: want})
		if len(a) != len(b) {
			t.Fatalf("%s: %s: got %d elements, want %d of ONNX Runtime", r.name, name, len(a), len(b))
		}
		if c := cosine(a, b); !(c >= 0.9999) {
			t.Errorf("%s: %s: cosine %.6f with ONNX Runtime", r.name, name, c)
		}
	}
	if os.Getenv("MM_TEST_LATENCY") == "" {
		return
	}
	var mine, theirs []float64
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end) || len(mine) < 5; {
		time.Sleep(10 * time.Millisecond) // ONNX Runtime's threads keep spinning after a run
		start := time.Now()
		if _, err := p.Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, float64(time.Since(start))/1e6)
		var ns float64
		if _, err := fmt.Sscan(o.ask(t, "time 1"), &ns); err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, ns/1e6)
	}
	slices.Sort(mine)
	slices.Sort(theirs)
	a, b := mine[len(mine)/2], theirs[len(theirs)/2]
	t.Logf("%-22s %8d %8.3f %8.3f %6.2f %9.1f", r.name, threads, a, b, a/b, float64(p.Peak())/1e6)
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	if aa == 0 && bb == 0 {
		return 1
	}
	return ab / math.Sqrt(aa*bb)
}
