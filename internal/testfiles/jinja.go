package testfiles

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Jinja starts Python's Jinja, configured as Hugging Face does for chat templates. The
// returned function renders a template with variables that JSON can encode; it returns the
// text or the failure. The test is skipped if no Python with jinja2 is found.
func Jinja(t testing.TB) func(template string, vars map[string]any) (text, failed string) {
	t.Helper()
	python := Python(t, "jinja2")
	script := filepath.Join(Root(t), "core", "chat", "jinja", "testdata", "reference.py")
	cmd := exec.Command(python, script)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	out := bufio.NewReader(pipe)
	return func(template string, vars map[string]any) (string, string) {
		t.Helper()
		request, err := json.Marshal(map[string]any{"template": template, "vars": vars})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(request, '\n')); err != nil {
			t.Fatal(err)
		}
		line, err := out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Text, Error string }
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Text, answer.Error
	}
}
