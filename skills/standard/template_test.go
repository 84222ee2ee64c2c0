package standard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/skills/sandbox/starlark"
	"mm-abi.org/mm/skills/sandbox/wasm"
)

// TestWrite checks that each template is a module, builds if its tools are
// installed, and answers.
func TestWrite(t *testing.T) {
	for _, lang := range Languages() {
		t.Run(lang, func(t *testing.T) {
			opt := Template{Name: "word-count", Language: lang}
			dir := filepath.Join(t.TempDir(), "word-count")
			if err := WriteTemplate(dir, opt); err != nil {
				t.Fatal(err)
			}
			if err := WriteTemplate(dir, opt); err == nil {
				t.Error("overwrote a module")
			}
			m, list := modules.Load(dir)
			if len(list) > 0 {
				t.Fatal(list)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				text, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil || strings.Contains(e.Name()+string(text), "NAME") {
					t.Errorf("%s: %v, holds NAME", e.Name(), err)
				}
			}
			if opt.Command() != "" {
				build(t, dir, opt)
			}
			answers(t, dir, m)
		})
	}
}

// build runs the build command.
func build(t *testing.T, dir string, opt Template) {
	t.Helper()
	switch opt.Language {
	case "go":
		if os.Getenv("MM_SANDBOX") == "" {
			t.Skip("MM_SANDBOX=1 builds a guest in Go")
		}
	case "c":
		if zig := os.Getenv("MM_ZIG"); zig != "" {
			ziglang(t, dir, zig, opt)
			return
		}
		if _, err := os.Stat("/usr/lib/wasm32-wasi/crt1.o"); err != nil {
			t.Skip("skipped: no wasi-libc, and no zig in MM_ZIG")
		}
		if _, err := exec.LookPath("clang"); err != nil {
			t.Skip("skipped: no clang")
		}
	}
	cmd := exec.Command("sh", "-c", opt.Command())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// ziglang builds a C guest with zig's compiler and libc.
func ziglang(t *testing.T, dir, zig string, opt Template) {
	t.Helper()
	command, ok := strings.CutPrefix(opt.Command(), "clang --target=wasm32-wasi --sysroot=/usr ")
	if !ok {
		t.Fatalf("%q is not a command for zig", opt.Command())
	}
	cmd := exec.Command(zig, append([]string{"cc", "--target=wasm32-wasi"}, strings.Fields(command)...)...)
	cmd.Dir = dir
	if os.Getenv("ZIG_GLOBAL_CACHE_DIR") == "" {
		cmd.Env = append(os.Environ(), "ZIG_GLOBAL_CACHE_DIR="+t.TempDir())
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// answers calls the tool on the engine in its manifest.
func answers(t *testing.T, dir string, m *modules.Manifest) {
	t.Helper()
	var e sandbox.Executor = starlark.Executor{}
	name := m.Runtime.Starlark
	switch {
	case m.Runtime.Wasm != "":
		name = m.Runtime.Wasm
		engine, err := wasm.New(t.Context(), wasm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		e = engine
	case m.Runtime.Python != "":
		name = m.Runtime.Python
		e = python.New(python.Options{Fallback: starlark.Executor{}})
	}
	code, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	limits := modules.Effective{MemBytes: 128 << 20, TimeoutMS: 60_000}
	g, err := e.Prepare(t.Context(), sandbox.Program{Name: m.Name, Code: code, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{"text":"one two\nthree"}`)})
	if got := strings.TrimSpace(string(reply.Output)); err != nil || got != `{"result":3}` && got != `{"result": 3}` {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUnknown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	if err := WriteTemplate(dir, Template{Name: "a", Language: "cobol"}); err == nil || !strings.Contains(err.Error(), "c, go, python, starlark") {
		t.Error(err)
	}
	if err := WriteTemplate(dir, Template{Name: "Not A Name"}); err == nil {
		t.Error("an invalid name was accepted")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("files are left")
	}
}
