package quantize

import (
	"bytes"
	"errors"
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

func shipped(t *testing.T) string {
	return filepath.Join(testfiles.Root(t), "catalog", "core-llm", "core-llm.gguf")
}

// written is the file written from the shipped core.
func written(t *testing.T, opt Options) ([]byte, error) {
	t.Helper()
	var err error
	if opt.Recipe, err = quant.ParseRecipe("Q4_0"); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	if _, _, err = Rewrite(t.Context(), shipped(t), out, opt, false); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// Every method writes other weights than plain rounding does, and the same
// bytes with any number of threads.
func TestMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
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
	if testing.Short() {
		t.Skip("skipped in short mode: calibrates four times")
	}
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

// A model in pieces has the tensors of the whole, is converted as the whole, and is
// written in as many pieces as asked for.
func TestSplit(t *testing.T) {
	dir := t.TempDir()
	recipe, err := quant.ParseRecipe("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(in, out, split string) []Rewritten {
		t.Helper()
		opt := Options{Recipe: recipe}
		if split != "" {
			if opt.Split, err = ParseSplit(split); err != nil {
				t.Fatal(err)
			}
		}
		_, files, err := Rewrite(t.Context(), in, filepath.Join(dir, out), opt, false)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	one := rewrite(shipped(t), "whole.gguf", "")
	three := rewrite(shipped(t), "three.gguf", "3")
	joined := rewrite(three[0].Path, "joined.gguf", "")
	small := rewrite(three[0].Path, "small.gguf", "200K")
	if len(one) != 1 || len(three) != 3 || len(joined) != 1 || len(small) < 3 || three[0].Path != filepath.Join(dir, "three-00001-of-00003.gguf") {
		t.Fatalf("got %v, %v, %v, %v", one, three, joined, small)
	}
	again, err := os.ReadFile(joined[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(one[0].Path); err != nil || !bytes.Equal(b, again) {
		t.Errorf("the joined model differs from the whole (%v)", err)
	}
	// An input is never replaced, nor another file without force.
	opt := Options{Recipe: recipe, Split: Split{Pieces: 3}}
	if _, _, err := Rewrite(t.Context(), three[0].Path, filepath.Join(dir, "three.gguf"), opt, true); !errors.Is(err, ErrSameFile) {
		t.Errorf("onto the input: %v", err)
	}
	if _, _, err := Rewrite(t.Context(), shipped(t), filepath.Join(dir, "three.gguf"), opt, false); !errors.Is(err, ErrExists) {
		t.Errorf("onto other pieces: %v", err)
	}
	if _, _, err := Rewrite(t.Context(), three[1].Path, filepath.Join(dir, "x.gguf"), opt, false); !errors.Is(err, ggml.ErrPiece) {
		t.Errorf("from the second piece: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".mm-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v", left, err)
	}
}

func TestParseSplit(t *testing.T) {
	for text, want := range map[string]Split{"3": {Pieces: 3}, "2G": {Bytes: 2e9}, "500m": {Bytes: 5e8}, "1K": {Bytes: 1000}} {
		if got, err := ParseSplit(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "G", "1.5G", "2GB", "9999999999999", "0G"} {
		if _, err := ParseSplit(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
