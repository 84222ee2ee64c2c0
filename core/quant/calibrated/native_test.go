package calibrated

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The loader of llama.cpp, in the library that its programs share, reads both
// formats.
func TestLlamaReads(t *testing.T) {
	native := os.Getenv("MM_NATIVE_DIR")
	if native == "" {
		t.Skip("MM_NATIVE_DIR is not set")
	}
	libs := filepath.Join(native, "lib", "bins", "linux-x64")
	program := filepath.Join(t.TempDir(), "load")
	build := exec.Command("g++", "-std=c++17", "-I", filepath.Join(native, "llama.cpp", "common"), "-o", program, "testdata/load.cpp",
		filepath.Join(libs, "libllama-common.so"), "-Wl,-rpath,"+libs, "-Wl,--allow-shlib-undefined")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("cannot build the program for llama.cpp's loader: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name, want string
		write      func(*Imatrix, io.Writer) error
	}{
		{"new.gguf", "2 4 0\none.txt\ntwo.txt\nblk.0.attn_q.weight 8 0 2 16 /8\nblk.0.ffn_down_exps.weight 3 6 0 0 /3 /0\n", (*Imatrix).Write},
		{"old.dat", "2 0 1\ntwo.txt\nblk.0.attn_q.weight 2 0 0.5 4 /2\nblk.0.ffn_down_exps.weight 1 2 1 1 /1\n", (*Imatrix).WritePlain},
	} {
		var b bytes.Buffer
		if err := c.write(sample(), &b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command(program, path).Output()
		if d := cmp.Diff(c.want, string(got)); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got)\n%s", c.name, err, d)
		}
	}
}
