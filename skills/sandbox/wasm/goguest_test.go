package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

const goGuest = `package main

import (
	"encoding/json"
	"net"
	"os"
)

var held [][]byte

func main() {
	var args map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&args); err != nil {
		os.Exit(3)
	}
	switch args["do"] {
	case "loop":
		for {
		}
	case "memory":
		for {
			held = append(held, make([]byte, 1<<20))
		}
	case "escape":
		_, file := os.ReadFile("/etc/passwd")
		write := os.WriteFile("/tmp/x", nil, 0o644)
		_, dial := net.Dial("tcp", "127.0.0.1:22")
		if file != nil && write != nil && dial != nil && len(os.Environ()) == 0 {
			os.Stdout.WriteString("\"no\"")
		}
	case "panic":
		panic("no")
	default:
		json.NewEncoder(os.Stdout).Encode(map[string]any{"echo": args})
	}
}
`

// TestGoGuest checks that a guest built by the Go toolchain is held like
// others. Building and compiling takes seconds: MM_SANDBOX=1.
func TestGoGuest(t *testing.T) {
	if os.Getenv("MM_SANDBOX") == "" {
		t.Skip("MM_SANDBOX=1 builds a guest in Go")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module guest\n\ngo 1.26\n", "main.go": goGuest} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", "guest.wasm", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	code, err := os.ReadFile(filepath.Join(dir, "guest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse(code)
	if err != nil {
		t.Fatal(err)
	}
	if m.guard(); m.tangled() {
		t.Error("the Go guest is interpreted")
	}
	e := open(t, Options{})
	for do, want := range map[string]sandbox.Kind{"loop": sandbox.Time, "memory": sandbox.Memory, "escape": "", "panic": sandbox.Exit} {
		limits := modules.Effective{MemBytes: 64 << 20, TimeoutMS: 60_000}
		if do == "loop" {
			limits.TimeoutMS = 300
		}
		g, err := e.Prepare(t.Context(), sandbox.Program{Name: "guest", Code: code, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{"do":"` + do + `"}`)})
		if sandbox.KindOf(err) != want || want == "" && string(reply.Output) != `"no"` {
			t.Errorf("%s: %q, %v after %v", do, reply.Output, err, time.Since(start))
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	skilltest.Warm(t, e, sandbox.Program{Name: "guest", Code: code, Limits: modules.Effective{TimeoutMS: 60_000}}, "Go wasm")
}
