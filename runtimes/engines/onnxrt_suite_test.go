package engines_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
)

var update = flag.Bool("update", false, "write the list of cases that fail; it may only shrink")

const failing = "testdata/expected_fail.txt"

// noLocale is why a case fails that passes on other systems.
const noLocale = "the system has no locale en_US.UTF-8"

// libraryVersion is the version of the library whose failures are listed.
const libraryVersion = "1.30.0"

// Every case of ONNX's backend tests yields its expected results in ONNX Runtime, through mm's checks and
// mm-native, except for the listed ones, each with its reason.
func TestSuite(t *testing.T) {
	dir := os.Getenv("ONNX_SUITE")
	if dir == "" {
		t.Skip("skipped: ONNX_SUITE names no folder (make onnx-suite)")
	}
	home := os.Getenv("MM_ENGINES")
	if home == "" {
		t.Skip("skipped: MM_ENGINES names no home folder with onnxruntime " + libraryVersion + " installed (make onnx-suite)")
	}
	runtimetest.Program(t)
	e := engines.ONNXRuntime{Home: func() (string, error) { return home, nil }}
	if info, err := e.Probe(t.Context()); err != nil || info.Version != libraryVersion {
		t.Fatalf("ONNX Runtime %s, %v: the list is that of %s", info.Version, err, libraryVersion)
	}
	listed := expected(t)
	failed := make(map[string]string)
	sum, passes := 0, 0
	t.Logf("ONNX Runtime %s through mm-native:", libraryVersion)
	for _, category := range []string{"node", "simple", "pytorch-converted", "pytorch-operator", "light"} {
		cases := suite(t, dir, category)
		results := each(cases, func(c example) error { return c.run(t.Context(), e) })
		passed := 0
		for i, c := range cases {
			if results[i] == nil {
				passed++
				continue
			}
			failed[c.name] = reason(results[i])
			if listed[c.name] == "" && !*update {
				t.Errorf("%s: %v", c.name, results[i])
			}
		}
		t.Logf("%-17s %4d cases, %4d pass", category, len(cases), passed)
		sum, passes = sum+len(cases), passes+passed
	}
	t.Logf("%-17s %4d cases, %4d pass", "all", sum, passes)
	why := make(map[string]int)
	for _, r := range failed {
		r, _, _ = strings.Cut(r, ":")
		why[r]++
	}
	for _, r := range slices.Sorted(maps.Keys(why)) {
		t.Logf("%5d do not pass: %s", why[r], r)
	}
	if *update {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(failed)) {
			fmt.Fprintf(&b, "%s\t%s\n", name, failed[name])
		}
		if err := os.WriteFile(failing, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, why := range listed {
		if failed[name] == "" && !strings.HasPrefix(why, noLocale) {
			t.Errorf("%s passes, or is no case: take it off %s", name, failing)
		}
	}
}

func expected(t *testing.T) map[string]string {
	data, err := os.ReadFile(failing)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		name, why, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("%q in %s gives no reason", line, failing)
		}
		listed[name] = why
	}
	return listed
}

// each runs the cases, a few at a time: most of the time is spent on starting processes.
func each(cases []example, run func(example) error) []error {
	results := make([]error, len(cases))
	var group sync.WaitGroup
	next := make(chan int)
	for range 3 {
		group.Go(func() {
			for i := range next {
				results[i] = run(cases[i])
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	group.Wait()
	return results
}

// reason classifies why a case fails.
func reason(err error) string {
	text := err.Error()
	first, _, _ := strings.Cut(text, "\n")
	for _, c := range [][2]string{
		{"locale", noLocale}, {"checking ", "refused by mm's checks"}, {"no tensor", "sequences, optionals and maps are not carried"}, {"TensorProto is", "sequences, optionals and maps are not carried"},
		{"NOT_IMPLEMENTED", "no kernel"}, {"Could not find an implementation", "no kernel"}, {"other numbers", "other results"}, {"want ", "other results"},
	} {
		if strings.Contains(text, c[0]) {
			return c[1] + ": " + first
		}
	}
	return "refused or failed by the library: " + first
}

// example is one case.
type example struct {
	name, model string
	sets        []string // folders of inputs and results
	output      string   // of a light model: the result of counting inputs
}

func suite(t *testing.T, dir, category string) []example {
	var cases []example
	pattern := filepath.Join(dir, category, "*", "model.onnx")
	if category == "light" {
		pattern = filepath.Join(dir, category, "*.onnx")
	}
	models, err := filepath.Glob(pattern)
	if err != nil || len(models) == 0 {
		t.Fatalf("no cases in %s: %v", pattern, err)
	}
	for _, path := range models {
		c := example{model: path, name: category + "/" + filepath.Base(filepath.Dir(path))}
		if category == "light" {
			c.name, c.output = category+"/"+strings.TrimSuffix(filepath.Base(path), ".onnx"), strings.TrimSuffix(path, ".onnx")+"_output_0.pb"
		} else if c.sets, err = filepath.Glob(filepath.Join(filepath.Dir(path), "test_data_set_*")); err != nil || len(c.sets) == 0 {
			t.Fatalf("%s has no data: %v", c.name, err)
		}
		cases = append(cases, c)
	}
	return cases
}

func (c example) run(ctx context.Context, e engines.ONNXRuntime) error {
	m, err := onnx.Open(c.model)
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	open, err := e.Open(ctx, ortBundle(c.model), runtimes.Limits{Threads: 1})
	if err != nil {
		return err
	}
	defer open.Close()
	if c.output != "" {
		x := counting(m.Inputs()[0])
		return c.compare(ctx, open, map[string]runtimes.Tensor{m.Inputs()[0].Name: x}, []string{m.Graph.Outputs[0].Name}, []string{c.output})
	}
	for _, set := range c.sets {
		in := make(map[string]runtimes.Tensor)
		for i, v := range m.Graph.Inputs {
			path := filepath.Join(set, fmt.Sprintf("input_%d.pb", i))
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if in[v.Name], err = readTensor(path); err != nil {
				return err
			}
		}
		var names, files []string
		for i, v := range m.Graph.Outputs {
			names, files = append(names, v.Name), append(files, filepath.Join(set, fmt.Sprintf("output_%d.pb", i)))
		}
		if err := c.compare(ctx, open, in, names, files); err != nil {
			return err
		}
	}
	return nil
}

func (c example) compare(ctx context.Context, m runtimes.Model, in map[string]runtimes.Tensor, names, files []string) error {
	out, err := m.(runtimes.Function).Run(ctx, in)
	if err != nil {
		return err
	}
	for i, name := range names {
		want, err := readTensor(files[i])
		if err != nil {
			return err
		}
		if err := same(out[name], want); err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
	}
	return nil
}

// counting returns the numbers 0, 1/n, 2/n, the inputs of the light models.
func counting(v onnx.Value) runtimes.Tensor {
	x := runtimes.Tensor{Type: runtimes.Float32}
	n := int64(1)
	for _, d := range v.Type.Dims {
		x.Shape = append(x.Shape, d.Value)
		n *= d.Value
	}
	for i := range n {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(i)/float32(n)))
	}
	return x
}

// readTensor parses a TensorProto as the only constant of a model.
func readTensor(path string) (runtimes.Tensor, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return runtimes.Tensor{}, err
	}
	wrap := func(field byte, b []byte) []byte {
		return append(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(b))), b...)
	}
	m, err := onnx.Parse(wrap(7, wrap(5, data)))
	if err != nil {
		return runtimes.Tensor{}, fmt.Errorf("no TensorProto is in %s: %w", filepath.Base(path), err)
	}
	x := &m.Graph.Initializers[0]
	if x.DType == onnx.STRING {
		texts := make([]string, len(x.Strings))
		for i, s := range x.Strings {
			texts[i] = string(s)
		}
		return runtimes.Strings(x.Dims, texts), nil
	}
	b, err := x.Bytes()
	return runtimes.Tensor{Type: runtimes.ElemOf(x.DType), Shape: x.Dims, Data: bytes.Clone(b)}, err
}

// same compares like ONNX's runner: fractions within rtol 1e-3 and atol 1e-7, everything else exactly.
func same(got, want runtimes.Tensor) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%s %v, want %s %v", got.Type, got.Shape, want.Type, want.Shape)
	}
	if len(got.Data) != len(want.Data) {
		return fmt.Errorf("other numbers: %d bytes of %d", len(got.Data), len(want.Data))
	}
	size := got.Type.Size()
	switch got.Type {
	case runtimes.Float32, runtimes.Float64, runtimes.Float16, runtimes.BFloat16:
	default:
		if !bytes.Equal(got.Data, want.Data) {
			return errors.New("other numbers")
		}
		return nil
	}
	for i := 0; i < len(got.Data); i += size {
		a, b := value(got.Type, got.Data[i:]), value(got.Type, want.Data[i:])
		if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= 1e-7+1e-3*math.Abs(b)) {
			return fmt.Errorf("other numbers: element %d is %v, not %v", i/size, a, b)
		}
	}
	return nil
}

// value returns the first element of little-endian bytes.
func value(t runtimes.Elem, b []byte) float64 {
	switch t {
	case runtimes.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case runtimes.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case runtimes.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}
	h := binary.LittleEndian.Uint16(b)
	exp, frac := int(h>>10)&31, float64(h&1023)
	v := math.Ldexp(1024+frac, exp-25)
	switch {
	case exp == 0:
		v = math.Ldexp(frac, -24)
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		v = math.Inf(1)
	}
	if h>>15 == 1 {
		v = -v
	}
	return v
}
