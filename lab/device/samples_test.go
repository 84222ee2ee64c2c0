package device_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func array(t *testing.T, shape []int, v ...float32) []byte {
	t.Helper()
	b, err := npy.Encode(&npy.Array{Type: "f4", Shape: shape, Data: floats(v...)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// job returns a job whose context has the inputs x, float32 [2], and, if both is set, ids,
// int32 [3].
func job(t *testing.T, both bool) device.Job {
	t.Helper()
	c := htptest.Sample()
	g := &c.Graphs[0]
	g.Inputs = g.Inputs[:1]
	g.Inputs[0].Dims, g.Inputs[0].Dynamic = []uint32{2}, nil
	if both {
		ids := g.Inputs[0]
		ids.ID, ids.Name, ids.DType, ids.Dims = 77, "ids", htp.Int32, []uint32{3}
		g.Inputs = append([]htp.Tensor{g.Inputs[0]}, ids)
	}
	path := filepath.Join(t.TempDir(), "c.bin")
	if err := os.WriteFile(path, htptest.Context(c), 0o600); err != nil {
		t.Fatal(err)
	}
	return device.Job{Context: path}
}

// files writes files into a new working directory.
func files(t *testing.T, all map[string][]byte) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, data := range all {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The same inputs in each format.
func TestRead(t *testing.T) {
	x, ids := array(t, []int{1, 2}, 0.5, -2), []byte("[[7, 8, 9]]")
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	for name, data := range map[string][]byte{"x.npy": x, "ids.npy": array(t, []int{3}, 7, 8, 9)} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(data)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	raw := []byte{7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0}
	files(t, map[string][]byte{
		"x.npy": x, "ids.json": ids, "ids.raw": raw, "both.npz": zipped.Bytes(), "both.json": []byte(`{"ids": [7, 8, 9], "x": [0.5, -2]}`),
		"named/x.npy": x, "named/ids.json": ids, "runs/0000/0.raw": floats(0.5, -2), "runs/0000/1.raw": raw, "runs/0001/0.raw": floats(1, 2), "runs/0001/1.raw": raw,
		"x.raw": floats(0.5, -2), "x.json": []byte("[0.5, -2]"),
	})
	one := [][]float32{{0.5, -2}, {7, 8, 9}}
	two := [][]float32{{1, 2}, {7, 8, 9}}
	for place, want := range map[string][][][]float32{
		"x=x.npy,ids=ids.json": {one}, "ids=ids.raw,x=x.raw": {one}, "both.npz": {one}, "both.json": {one}, "named": {one}, "runs": {one, two},
	} {
		got, err := device.ReadSamples(t.Context(), job(t, true), device.SampleOptions{Places: []string{place}})
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", place, err, d)
		}
	}
	for _, place := range []string{"x.npy", "x.raw", "x.json"} {
		got, err := device.ReadSamples(t.Context(), job(t, false), device.SampleOptions{Places: []string{place, place}})
		if d := cmp.Diff([][][]float32{one[:1], one[:1]}, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", place, err, d)
		}
	}
}

// Inputs that do not fit the graph are refused.
func TestRefused(t *testing.T) {
	files(t, map[string][]byte{
		"x.npy": array(t, []int{2}, 1, 2), "three.npy": array(t, []int{3}, 1, 2, 3), "ids.json": []byte("[1, 2, 3]"), "short.raw": {1, 2}, "uneven.json": []byte("[[1], [2, 3]]"),
		"words.json": []byte(`["a", "b"]`), "more.json": []byte(`{"x": [1, 2], "ids": [1, 2, 3], "y": 1}`), "less.json": []byte(`{"x": [1, 2]}`), "picture.png": []byte("\x89PNG\r\n\x1a\n"),
		"empty/other.npy": nil, "broken.npz": []byte("PK"), "deep.json": []byte(strings.Repeat("[", 20000)),
	})
	for place, words := range map[string]string{
		"x.npy": "use NAME=FILE for each", "x=x.npy": `missing input "ids"`, "x=three.npy,ids=ids.json": "got 3 numbers", "x=short.raw,ids=ids.json": "got 2 bytes",
		"x=uneven.json,ids=ids.json": "differ in length", "x=words.json,ids=ids.json": "not a number", "more.json": `unknown input "y"`, "less.json": `missing input "ids"`,
		"x=picture.png,ids=ids.json": "--module", "empty": `missing input "x"`, "broken.npz": "zip", "nothing.npy": "not a file", "x=x.npy,x=x.npy,ids=ids.json": "unique names",
		"x=x.npy,ids=ids.json,z=x.npy": `unknown input "z"`, "x=deep.json,ids=ids.json": "depth",
	} {
		if _, err := device.ReadSamples(t.Context(), job(t, true), device.SampleOptions{Places: []string{place}}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", place, err, words)
		}
	}
}

// An image is preprocessed as the module's manifest specifies.
func TestPicture(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := htptest.Sample()
	g := &c.Graphs[0]
	g.Inputs = g.Inputs[:1]
	g.Inputs[0].Name, g.Inputs[0].Dims, g.Inputs[0].Dynamic = "image", []uint32{1, 128, 128, 3}, nil
	path := filepath.Join(t.TempDir(), "c.bin")
	if err := os.WriteFile(path, htptest.Context(c), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := device.ReadSamples(t.Context(), device.Job{Context: path}, device.SampleOptions{
		Places: []string{filepath.Join(root, "catalog", "vision-proj", "chart.png")}, Module: filepath.Join(root, "catalog", "vision-enc"),
	})
	if err != nil || len(got) != 1 || len(got[0][0]) != 3*128*128 || got[0][0][0] == 0 {
		t.Fatalf("%v, %d sets", err, len(got))
	}
}

// The first window of an audio file is preprocessed as the module's manifest specifies;
// later samples have no effect.
func TestSound(t *testing.T) {
	module, err := filepath.Abs("../../catalog/audio-enc")
	if err != nil {
		t.Fatal(err)
	}
	c := htptest.Sample()
	g := &c.Graphs[0]
	g.Inputs = g.Inputs[:1]
	g.Inputs[0].Name, g.Inputs[0].Dims, g.Inputs[0].Dynamic = "pcm", []uint32{1, 300, 64}, nil
	const window, rate = 48352, 16000
	tone := func(n, later int, hertz, then float64) []byte {
		w := &preprocess.Wave{Rate: rate, Samples: make([]float32, n+later)}
		for i := range w.Samples {
			if i == n {
				hertz = then
			}
			w.Samples[i] = float32(math.Sin(2*math.Pi*hertz*float64(i)/rate)) / 2
		}
		return preprocess.EncodeWAV(w)
	}
	files(t, map[string][]byte{
		"c.bin": htptest.Context(c), "one.wav": tone(window, 0, 440, 0), "two.wav": tone(window, window, 440, 1500), "other.wav": tone(window, window, 1500, 440),
		"none.wav": []byte("RIFF"),
	})
	read := func(name string) ([][][]float32, error) {
		return device.ReadSamples(t.Context(), device.Job{Context: "c.bin"}, device.SampleOptions{Places: []string{name}, Module: module})
	}
	one, err := read("one.wav")
	if err != nil || len(one) != 1 || len(one[0][0]) != 300*64 {
		t.Fatalf("%v, %d sets", err, len(one))
	}
	if two, err := read("two.wav"); err != nil || !cmp.Equal(one, two) {
		t.Errorf("a second window changes the result: %v", err)
	}
	other, err := read("other.wav")
	if err != nil || cmp.Equal(one, other) {
		t.Errorf("a different first window has the same result: %v", err)
	}
	if a, b := loudest(one[0][0]), loudest(other[0][0]); a >= b {
		t.Errorf("440 Hz is loudest in band %d, 1500 Hz in band %d", a, b)
	}
	if _, err := read("none.wav"); err == nil {
		t.Error("malformed audio accepted")
	}
}

// loudest returns the band with the largest value in the middle frame of 64 bands.
func loudest(frames []float32) int {
	const bands = 64
	best, at := -1, frames[150*bands:151*bands]
	for i, v := range at {
		if best < 0 || v > at[best] {
			best = i
		}
	}
	return best
}
