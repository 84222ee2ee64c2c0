package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/lab/farm/broker"
	"mm-abi.org/mm/registry/registrytest"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

func TestMain(m *testing.M) {
	testscript.Main(inMemory{m}, map[string]func(){
		"mm":        main,
		"mm-native": playNative,
		"mm-queue":  queueMain,
		"mm-plain":  plainMain,
	})
}

// inMemory runs the tests with temporary folders in memory.
type inMemory struct{ *testing.M }

// Run runs the tests.
func (m inMemory) Run() int { return testfiles.InMemory(m.M) }

// queueMain is the program mm-queue.
func queueMain() {
	if err := broker.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mm-queue:", err)
		os.Exit(1)
	}
}

// Every script of testdata/script is a story of one user: commands, what they
// print and how they end. A new home, a key without a password and a registry
// are at hand.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     os.Getenv("MM_CONTINUE") != "",
		Setup: func(e *testscript.Env) error {
			server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
			e.Defer(server.Close)
			e.Setenv("MM_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("MM_KEY_PASSWORD", "")
			e.Setenv("DOCKER_CONFIG", filepath.Join(e.WorkDir, "docker"))
			e.Setenv("REPO", repo)
			e.Values[worldKey{}] = new(*sigstoretest.World)
			e.Setenv("DATA", filepath.Join(repo, "..", "shared", "data"))
			models := registrytest.Start()
			e.Defer(models.Close)
			e.Setenv("HF_ENDPOINT", models.URL)
			e.Setenv("HF_HOME", filepath.Join(e.WorkDir, "hub"))
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Setenv("FREE", free.Addr().String())
			if err := free.Close(); err != nil {
				return err
			}
			e.Setenv("REGISTRY", strings.TrimPrefix(server.URL, "http://"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "data" {
				_, err := os.Stat(filepath.Join(repo, "..", "shared", "data"))
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"flip":    flip,
			"replace": replace,
			"waitfor": waitFor,

			"certify":     certifyCommand,
			"picture":     picture,
			"transformer": transformer,
			"media":       writeMedia,
			"qnn":         qnnCommand,
			"phone":       phoneCommand,
		},
	})
}

// flip changes one byte of a file: flip FILE OFFSET, or flip DIR OFFSET SUFFIX
// for the largest file below DIR.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE|DIR OFFSET")
	}
	path := ts.MkAbs(args[0])
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = largest(ts, path)
	}
	var at int64
	if _, err := fmt.Sscan(args[1], &at); err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Check(os.Chmod(path, 0o644))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	ts.Check(err)
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	ts.Check(err)
}

// replace puts one text in the place of another, which must be there: replace
// OLD NEW FILE.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	text := ts.ReadFile(args[2])
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%s has no %q", args[2], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Replace(text, args[0], args[1], 1)), 0o644))
}

// picture writes a picture: picture FILE RED GREEN BLUE.
func picture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: picture FILE RED GREEN BLUE")
	}
	var c [3]uint8
	for i, a := range args[1:] {
		_, err := fmt.Sscan(a, &c[i])
		ts.Check(err)
	}
	ts.Check(draw(ts.MkAbs(args[0]), c[0], c[1], c[2]))
}

// transformer writes a model as Hugging Face does: transformer DIR SEED.
func transformer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: transformer DIR SEED")
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	ts.Check(testfiles.Transformer(ts.MkAbs(args[0]), seed))
}

func largest(ts *testscript.TestScript, dir string) (path string) {
	size := int64(-1)
	ts.Check(filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Size() > size {
			path, size = p, info.Size()
		}
		return err
	}))
	return path
}

// mm runs the program inside the test and returns what it printed and how it
// ended.
func mm(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	code = run(context.Background(), append([]string{"mm"}, args...), strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// The playbook's line works as it is written: flags behind the argument, and
// commas inside the value of a repeated flag.
func TestPlaybookCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("MM_HOME", filepath.Join(dir, "home"))
	t.Chdir("../..")
	out := filepath.Join(dir, "dist", "p-lite") + "/"
	stdout, stderr, code := mm(t, "assemble", "builds/p-lite.graph.yaml",
		"--export", "gguf=int4,kv=fp8",
		"--export", "onnx=vision-enc,vision-proj,img-dec",
		"--out", out)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if !strings.Contains(stdout, "p-lite:0.1.0-laptop") {
		t.Errorf("printed %q", stdout)
	}
	for _, file := range []string{"oci-layout", "laptop/SHA256SUMS", "laptop/assembly.json", "laptop/core-llm/core-llm.gguf", "laptop/img-dec/img_dec.onnx"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
}

// waitFor waits until the background command has printed a line that begins
// with a word, and puts the address in it into $LISTEN.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor BACKGROUND WORD")
	}
	for range 1200 { // a minute
		out := ts.ReadFile(args[0] + ".out")
		if line, _, ok := strings.Cut(out, "\n"); ok && strings.HasPrefix(line, args[1]) {
			ts.Setenv("LISTEN", line[strings.Index(line, "://")+3:])
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s printed nothing", args[0])
}
