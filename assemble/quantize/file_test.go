package quantize

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ggml "mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/internal/testfiles"
)

// story is a text like those of the shipped core's training.
const story = "Once upon a time, there was a little girl named Lily. She liked to play in the park with her mom. " +
	"One day, she saw a big dog. The dog was sad and Lily wanted to help him. She gave him a ball and they played all day."

// text is a file of it.
func text(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat(story+"\n", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// written is the file written from the shipped core.
func written(t *testing.T, opt Options) ([]byte, error) {
	t.Helper()
	in, err := os.Open(filepath.Join(testfiles.Root(t), "catalog", "core-llm", "core-llm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if opt.Recipe, err = quant.ParseRecipe("Q4_0"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err = File(t.Context(), in, opt, &out)
	return out.Bytes(), err
}

// Every method writes other weights than plain rounding does, and the same
// bytes with any number of threads.
func TestMethods(t *testing.T) {
	calibration := text(t)
	plain, err := written(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]Options{
		"importance": {Imatrix: calibration, Windows: 2},
		"awq":        {Method: AWQ, Calibration: calibration, Windows: 2},
		"gptq":       {Method: GPTQ, Calibration: calibration, Windows: 2},
	} {
		t.Run(name, func(t *testing.T) {
			opt.Threads = 1
			one, err := written(t, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Threads = 2
			two, err := written(t, opt)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(one, two) {
				t.Error("one thread and two write different files")
			}
			if len(one) != len(plain) && name != "importance" || bytes.Equal(one, plain) {
				t.Errorf("%d bytes, plain rounding %d: equal %v", len(one), len(plain), bytes.Equal(one, plain))
			}
			if _, err := ggml.Read(bytes.NewReader(one), int64(len(one))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A saved matrix, in either form, equals its text.
func TestKept(t *testing.T) {
	calibration := text(t)
	for _, name := range []string{"kept.gguf", "kept.dat"} {
		keep := filepath.Join(t.TempDir(), name)
		made, err := written(t, Options{Imatrix: calibration, Windows: 2, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		read, err := written(t, Options{Imatrix: keep})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, read) {
			t.Errorf("%s: the file differs from that of the text", name)
		}
	}
}

func TestRefused(t *testing.T) {
	calibration := text(t)
	zeros := filepath.Join(t.TempDir(), "zeros.dat")
	if err := os.WriteFile(zeros, make([]byte, 64), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"awq without a text":  {Options{Method: AWQ}, "awq requires"},
		"gptq by a matrix":    {Options{Method: GPTQ, Imatrix: calibration}, "gptq requires a calibration text"},
		"another method":      {Options{Method: "hqq"}, "want one of rtn, awq, gptq"},
		"nothing to keep":     {Options{Keep: "x.gguf"}, "no importance matrix to keep"},
		"a file that is none": {Options{Imatrix: zeros}, zeros},
		"no such file":        {Options{Imatrix: zeros + "x"}, "no such file"},
	} {
		out, err := written(t, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(out) > 0 {
			t.Errorf("%s: %d bytes and %v, want an error with %q", name, len(out), err, c.want)
		}
	}
}
