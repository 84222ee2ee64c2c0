package main

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
)

// An interrupt stops the answer and not the conversation.
func TestChatInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: no interrupts to send here")
	}
	dir := t.TempDir()
	t.Setenv("MM_HOME", filepath.Join(dir, "home"))
	t.Chdir("../..")
	if _, stderr, code := mm(t, "assemble", "builds/m-lite.graph.yaml", "--export", "gguf=int8", "--out", filepath.Join(dir, "d")); code != exitOK {
		t.Fatal(stderr)
	}
	kept := make(chan os.Signal, 1) // an interrupt that comes too late must not end the tests
	signal.Notify(kept, os.Interrupt)
	defer signal.Stop(kept)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	in, say := io.Pipe()
	var stdout, stderr strings.Builder
	interrupting := writer(func(b []byte) (int, error) {
		if stdout.Len() < 100 && stdout.Len()+len(b) >= 100 {
			if err := self.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			select { // it has come, and who else waits for it hears of it
			case <-kept:
			case <-time.After(20 * time.Second):
				t.Error("no interrupt has come")
			}
			time.Sleep(50 * time.Millisecond)
		}
		return stdout.Write(b)
	})
	go func() {
		io.WriteString(say, "Once upon a time\nOnce upon a time there\n")
		say.Close()
	}()
	code := run(t.Context(), []string{"mm", "chat", filepath.Join(dir, "d"), "--temperature", "0.5", "--insecure-skip-verify"}, in, interrupting, &stderr)
	if code != exitOK || strings.Count(stderr.String(), "(interrupted)") != 1 {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	if answers := strings.Split(strings.TrimSpace(stdout.String()), "\n"); len(answers) < 2 {
		t.Errorf("answers %q", answers)
	}
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// A conversation that another process keeps is refused, and is free when that one has ended.
func TestChatKeptTwice(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	t.Setenv("MM_HOME", home)
	in, say := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(t.Context(), []string{"mm", "chat", "../../catalog/core-llm", "--keep", "notes", "-n", "1"}, in, io.Discard, io.Discard)
	}()
	io.WriteString(say, "one\n")
	lock := filepath.Join(home, "chats", "notes.json.lock")
	for range 600 {
		if _, err := os.Stat(lock); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, stderr, code := mm(t, "run", "../../catalog/core-llm", "--keep", "notes", "-n", "1", "two")
	if code != diag.ExitFailure || !strings.Contains(stderr, "--keep notes: the conversation is in use by another process") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	say.Close()
	if code := <-ended; code != exitOK {
		t.Errorf("the first one: exit %d", code)
	}
	if _, stderr, code := mm(t, "run", "../../catalog/core-llm", "--keep", "notes", "-n", "1", "two"); code != exitOK || !strings.Contains(stderr, "goes on after 2 turns") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
